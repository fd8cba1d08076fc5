// Package sdk is what the author of a Bulkhead plugin imports.
//
// A plugin is an executable whose main calls Serve with a *Plugin: name,
// version, settings, tools and what else it offers. The package speaks the
// plugin protocol with the host, so that an author writes typed handlers and
// never meets gRPC: arguments come in as a struct, results go out as a Result,
// a question to a person is a Result too, and an error is an *Error with a
// stable code. A panic in a handler costs one call, not the plugin.
//
// The life of a plugin process: the host asks what it is, has its settings
// validated, configures it, reads its offers, activates it, calls it, and in the
// end drains it. Everything but the tools is optional.
package sdk
