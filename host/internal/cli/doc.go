// Package cli is the command line, one file a command.
//
// Commands reach a running host over its control socket; call and mcp start a
// host for their own life when none runs. The exit code is 0 for success, 1 when
// a tool or check failed, 2 for bad usage and 3 when no host can be reached. With
// --json what is printed is for machines.
package cli
