// Package workspace is the plugin: its settings, the folders agents may work in, and
// one file a tool. A path goes through spaces to a tree, a text through document, what
// was read through ledger, and what a change replaces into history.
package workspace
