package config

import (
	"strings"
	"testing"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

// Names of hosts and origins are compared whole: what would never match, or looks as
// if it matched more than it does, is refused where it stands.
func TestHostsAndOrigins(t *testing.T) {
	for value, word := range map[string]string{
		"agents.example": "", "agents.example:8443": "", "192.0.2.7": "", "[2001:db8::1]:80": "", "2001:db8::1": "", "a_b-c.internal": "", "LAN": "",
		"*": "no patterns", "*.example": "no patterns", "": "a name or an address", "a b": "a name or an address", "http://x": "a name or an address",
		"x/": "a name or an address", "x:port": "a name or an address", "x:0": "a name or an address", "x.": "a name or an address", "a..b": "a name or an address", "[::1]": "a name or an address",
	} {
		checkName(t, "hosts", value, word)
	}
	for value, word := range map[string]string{
		"https://agents.example": "", "http://localhost:3000": "", "http://[::1]:3000": "", "vscode-webview://abc": "",
		"*": "no patterns", "https://*.example": "no patterns", "null": "every page without an address", "agents.example": "a scheme, a host",
		"https://agents.example/": `this one is "https://agents.example"`, "https://agents.example:443": `this one is "https://agents.example"`,
		"HTTPS://Agents.example": `this one is "https://agents.example"`, "http://u@h": `this one is "http://h"`, "": "a scheme, a host",
	} {
		checkName(t, "origins", value, word)
	}
}

func checkName(t *testing.T, key, value, word string) {
	t.Helper()
	_, diags := Parse("config.hcl", []byte("frontend \"http\" {\n  "+key+" = [\"ok.example\", \""+value+"\"]\n}\n"))
	if key == "origins" {
		_, diags = Parse("config.hcl", []byte("frontend \"http\" {\n  origins = [\""+value+"\"]\n}\n"))
	}
	text := ""
	if err := Err(diags); err != nil {
		text = err.Error()
	}
	switch {
	case word == "" && text != "":
		t.Errorf("%s %q is refused: %s", key, value, text)
	case word != "" && (!strings.Contains(text, word) || !strings.Contains(text, "config.hcl:2,") || CodeOf(diags[0]) != fault.ConfigValue):
		t.Errorf("%s %q: %q, want %q", key, value, text, word)
	}
}
