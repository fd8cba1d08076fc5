// Package scheduling is the plugin: its settings, the tools agents schedule with,
// and an internal tool that gives the operator's command line and the dashboard the
// same as JSON. Timers run from Activate to Drain only.
package scheduling
