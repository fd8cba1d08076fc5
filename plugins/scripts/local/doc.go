// Package local runs scripts on this machine, each behind walls of its own: its own
// namespaces, a file tree built from nothing but the system's programs, no network,
// few system calls, limits, and a watch over the memory of all its processes.
//
// What runs inside is this program again, as a keeper: it starts the interpreter,
// waits for it, ends whatever that left running, and sends back what lies in /out.
// A script can end its keeper, and loses its files by that; it can't do more, since
// keeper and script have the same rights, which are none.
//
// A keeper can be started ahead of its script, the interpreter with it: then a run
// begins at once, and still nothing of another run is there.
package local
