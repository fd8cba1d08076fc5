// Package scripts is the plugin: its settings, the tool that agents run scripts with,
// and what becomes of a script's files. The walls are a runner's.
package scripts
