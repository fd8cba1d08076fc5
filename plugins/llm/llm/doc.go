// Package llm is the plugin: its settings and three internal tools by which other
// plugins ask language models. A request is checked, given a model that can take it,
// counted against its agent's budget, and sent as often as makes sense. Keys stand in
// this process alone.
package llm
