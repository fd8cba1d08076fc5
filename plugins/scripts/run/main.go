package run

import _ "embed"

// Main is Python that runs a script as a program of its own, with errors that show the
// script's lines alone, and saves the figures it left open: _run(name, script, out).
//
//go:embed main.py
var Main string
