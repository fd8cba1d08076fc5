// Package memory is working memory: what agents and tools put aside during a
// conversation. Values live in RAM under a byte budget, large ones in files,
// each for its time; keys stand under a namespace, and a caller reaches only
// namespaces that are its own or that it was allowed. A value that does not fit
// is refused with fault.MemoryFull, never dropped in silence. Results too long
// for a conversation are stored here in chunks with an outline.
package memory
