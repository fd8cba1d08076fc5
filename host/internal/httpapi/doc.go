// Package httpapi is the HTTP door.
//
// The control socket in the data dir is how the host's own command line reaches a
// running host: only the same user can open it, and whoever does is the operator.
// The TCP address answers /healthz and /readyz.
package httpapi
