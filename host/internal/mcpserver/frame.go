package mcpserver

import (
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/tidwall/gjson"
)

// malformed says what is wrong with a message's frame, or nothing.
func malformed(m gjson.Result) string {
	if !m.IsObject() {
		return "one JSON-RPC object a message"
	}
	if id := m.Get("id"); m.Get("method").Exists() && id.Exists() && id.Type != gjson.String && id.Type != gjson.Number {
		return "a request's id is a string or a number"
	}
	if f := twofold(m); f != "" {
		return f
	}
	return bloated(m)
}

const (
	maxHello      = 16 << 10 // bytes of what a client says of itself
	maxHelloParts = 512      // values in it: the small ones take more memory than bytes
)

// bloated says that a client tells more of itself than a session should carry for
// all its life.
func bloated(m gjson.Result) string {
	if m.Get("method").Str != string(mcp.MethodInitialize) {
		return ""
	}
	hello := m.Get("params").Raw
	parts := strings.Count(hello, ",") + strings.Count(hello, "{") + strings.Count(hello, "[")
	if len(hello) <= maxHello && parts <= maxHelloParts {
		return ""
	}
	return fmt.Sprintf("the params of initialize (clientInfo and capabilities) have at most %d bytes and %d values, not %d and %d", maxHello, maxHelloParts, len(hello), parts)
}

// twofold says which key of a message, or of its params, stands there twice, be it in
// another case: readers differ in which one they take, and the library is one that
// takes either.
func twofold(m gjson.Result) (problem string) {
	for _, object := range []gjson.Result{m, m.Get("params")} {
		var seen [16]string
		n := 0
		if !object.IsObject() {
			continue
		}
		object.ForEach(func(key, _ gjson.Result) bool {
			if n == len(seen) {
				problem = fmt.Sprintf("a message, and its params, have at most %d keys", len(seen))
				return false
			}
			for _, k := range seen[:n] {
				if strings.EqualFold(k, key.Str) {
					problem = fmt.Sprintf("the message has the key %.40q twice, or in two cases", k)
				}
			}
			seen[n] = key.Str
			n++
			return problem == ""
		})
		if problem != "" {
			return problem
		}
	}
	return ""
}
