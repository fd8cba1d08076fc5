// Package child starts the programs of launcher plugins, such as scripts,
// browsers and servers that speak MCP on stdio, each behind walls of its own.
//
// The plugin's binary is run again, twice, under other names in argv[0], which is
// why Init is the first thing a plugin's main does (sdk.Serve calls it). The
// first copy becomes the child's own little init: it is PID 1 of a new PID
// namespace, prepares the file tree, reaps, passes signals on and ends the whole
// tree with itself. The second copy gives up its rights, sets limits and turns
// into the program.
//
// What a Spec asks for and the machine can't give is an error, never a silent
// gap; Probe says beforehand what there is.
package child
