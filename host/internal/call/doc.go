// Package call is the one path every call takes, whichever door it came in by
// and whether an agent or a plugin made it.
//
// The stages stand one to a file: resolve the name, authorize the caller, coerce
// and validate the arguments, gate by tier, dispatch under the host's own clock,
// classify what went wrong, audit, shape what is too long, reply. A call that
// asks something leaves its slot and its clock, and goes on when it is answered.
//
// The package knows nothing of MCP or HTTP: doors turn what they hear into a
// Request and a Reply into what they say.
package call
