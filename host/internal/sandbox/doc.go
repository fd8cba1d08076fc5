// Package sandbox puts one plugin process behind walls and makes sure that
// nothing it starts outlives the host.
//
// The walls act on the process that raises them, so the host starts itself a
// second time with the argument __sandbox. That shim is born in namespaces of
// its own where the machine allows them; it builds a small root from what the
// profile admits, sets limits, gives up its privileges, applies Landlock and a
// seccomp filter, tells the host over a pipe what is in force, and becomes the
// plugin. For profiles whose plugins start trees of processes it stays as a tiny
// init instead. Where no PID namespace can be had it stays as a keeper: a
// subreaper that kills every descendant as soon as the host goes away.
//
// What a default asks for and the machine can't give is listed as missing; what
// the config asked for by name and the machine can't give is an error.
package sandbox
