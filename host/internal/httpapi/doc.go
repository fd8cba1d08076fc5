// Package httpapi is the HTTP door, on a TCP address and on the control socket.
//
// Both serve one table of routes. On TCP a bearer token says which agent calls; an
// agent sees and touches what is its own, one that is an approver also what others
// wait for. The control socket in the data dir is how the host's own command line
// reaches a running host: only the same user can open it, and whoever does is the
// operator.
//
// What comes in on TCP is not trusted before it has passed the door: foreign host
// names and origins are refused, bodies and headers have a size and a time, every
// write has a deadline, and connections are bounded by what the process may hold
// open, the longest idle making room.
package httpapi
