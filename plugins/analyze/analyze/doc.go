// Package analyze is the plugin: one tool, offered while a model can see, that puts a
// file before a model in a request of its own. The agent gives a path and gets prose;
// the bytes never enter its conversation.
package analyze
