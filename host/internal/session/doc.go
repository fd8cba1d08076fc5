// Package session keeps the conversations of agents: whose each is, what is
// activated in it, what was said, and the handles by which a plugin may act for
// one later.
//
// A session belongs to the agent that opened it; to every other agent it does
// not exist. Ownership and handles are durable; activations, pins and turns
// live with the process.
package session
