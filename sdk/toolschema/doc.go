// Package toolschema holds the JSON Schemas of the internal tools: what plugins
// offer to each other by name. A plugin that offers such a tool takes its schemas
// from here, and so does a test of one that calls it; neither imports the other.
package toolschema
