// Package hostservice is what a plugin may ask of its host.
//
// Each generation of each plugin gets a service of its own, so that who asks is
// known from the connection and never from a message. A request that acts for a
// session names it by a running call of that plugin or by a handle the host
// minted for it; without one the plugin acts as itself.
package hostservice
