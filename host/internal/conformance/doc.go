// Command conformance puts the host through the protocol's own conformance suite:
// it builds the host and a plugin that offers what the suite calls by name, serves
// them, and runs every server scenario of each revision. A scored scenario that
// fails fails the run; the others are shown. `make conformance` runs it.
package main
