// Package elicit reads the questions that MCP servers ask while they run a tool,
// and holds the rules by which they may be answered without a person.
//
// All in a question is the server's own text: it is bounded, read strictly, and
// never believed. A form whose fields look like credentials is never filled in, a
// yes or no is never decided by a model, and no value is made to fit.
package elicit
