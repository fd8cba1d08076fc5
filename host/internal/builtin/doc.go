// Package builtin is the host's own few tools: working memory, guides and the
// inbox. They are offered like a plugin's and called through the same pipeline;
// call_tool is only declared here, the pipeline itself turns it into its target.
package builtin
