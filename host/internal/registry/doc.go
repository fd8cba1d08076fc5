// Package registry holds what every plugin offers, by name and by owner.
//
// A plugin's whole offer is published at once and replaces its last one; readers
// take an immutable Snapshot without a lock and see either the old or the new
// offer, never a mix. A name belongs to the plugin that claimed it first for as
// long as it offers it: a second claim is refused and kept as a Conflict.
package registry
