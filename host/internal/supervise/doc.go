// Package supervise keeps all plugins alive, each by a goroutine of its own.
//
// A unit is one configured plugin; a generation is one start of it. A generation
// is described, started under its sandbox, validated, configured and asked for
// its offers before anyone sees it; then it is published, activated and probed.
// When it dies the unit starts the next one after a growing pause, until a budget
// is used up and the unit is quarantined. A swap brings a new generation up beside
// the old one, so that no call is lost.
//
// Calls pass through Invoke without a lock held across the wire: a slot, the
// serving generation, one stream. A call whose caller left keeps its slot until
// the plugin's handler has really returned.
package supervise
