// Package policy says who may call what, and how much care a call takes.
//
// An Agent is a principal with an allowlist by group, tool and denial. A tool's
// security tier is settled in one place, Rate: the operator's word first, then
// the host's own map of the tools it ships, then what the plugin proposes, raised
// to at least elevated. Grants are the things a plugin may ask of its host.
package policy
