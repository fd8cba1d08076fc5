// Package settings is the bridge's block in config.hcl: one body for the bridge
// and one block a server. Validate reports every fault at its own attribute, and
// Refused names servers that must not be connected as they stand, such as one
// with an argument guard that nothing would enforce.
package settings
