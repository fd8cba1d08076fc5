// Package e2e tests the whole host from outside: the real binary, real plugins,
// real sockets, and clients written by others.
package e2e
