package bridge

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The schema of mcp_register_server refuses what is private at first sight, so that
// nobody is asked to approve it, and nothing else.
func TestPrivateAddressesAreRefusedFirst(t *testing.T) {
	valid := func(allowed []string, address string) bool {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(urlSchema(allowed)))
		if err != nil {
			t.Fatal(err)
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource("u.json", doc); err != nil {
			t.Fatal(err)
		}
		schema, err := c.Compile("u.json")
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(address) == nil
	}
	private := []string{"http://127.0.0.1/", "http://10.1.2.3:80/mcp", "https://192.168.0.1", "http://172.16.0.1/", "http://172.31.9.9", "http://169.254.169.254/latest", "http://100.64.0.1/", "http://0.0.0.0/",
		"http://localhost:80/", "http://LOCALHOST/", "http://printer/", "http://192.168.255.1/", "http://169.254.0.1", "http://255.255.255.255/", "http://127.1/", "http://2130706433/", "http://0x7f000001/x", "http://[::1]/", "http://[::ffff:10.0.0.1]/", "http://[fd00::1]/", "http://[fe80::1]/"}
	public := []string{"https://mcp.example/mcp", "http://8.8.8.8/", "https://172.15.0.1/", "https://100.63.0.1/", "https://100.128.0.1/x", "https://10.example.com/", "https://127.0.0.1.example/", "https://[2606:4700::1111]/", "https://internal.example/", "https://192.167.1.1", "https://192.169.1.1:8443/mcp?a=b", "https://169.253.1.1/", "https://mcp.example.", "https://172.32.0.1/", "https://223.1.1.1/", "https://99.1.1.1", "https://MCP.Example:8443", "https://x.example/http://10.0.0.1/"}
	b := newBridge()
	for _, a := range private {
		if valid(nil, a) {
			t.Errorf("%s is let through", a)
		}
		// What the schema refuses the tool refuses as well.
		if b.publicURL(a) == nil && a != "http://127.1/" { // which is found out when it is dialled
			t.Errorf("the tool takes %s", a)
		}
		if !valid([]string{"10.0.0.0/8"}, a) {
			t.Errorf("%s is refused although a network is allowed, which only the tool can judge", a)
		}
	}
	for _, a := range public {
		if err := b.publicURL(a); err != nil {
			t.Errorf("the tool refuses %s: %v", a, err)
		}
		if !valid(nil, a) || !valid([]string{"printer"}, a) {
			t.Errorf("%s is refused", a)
		}
	}
	for a, want := range map[string]bool{"http://printer/": true, "http://printer:81/x": true, "http://printer2/": false, "http://[::1]:9/": true, "http://[::1]:99/": false, "http://127.0.0.1/": false} {
		if got := valid([]string{"printer", "[::1]:9"}, a); got != want {
			t.Errorf("%s: %t", a, got)
		}
	}
	if !json.Valid(urlSchema(nil)) {
		t.Error("no JSON")
	}
}
