package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
)

// With the mode rows the server has tools and resources of every kind.

const rowsTools = `,{"name":"strict","description":"Refuses all.","inputSchema":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}},
{"name":"faint","description":"Ends the server the first time.","inputSchema":{"type":"object"},"annotations":{"idempotentHint":true}},
{"name":"blocks","description":"Gives blocks.","inputSchema":{"type":"object","properties":{"kind":{"type":"string"}}}},
{"name":"needy","description":"Wants an order_id. The order_id is the number of an order. More.","inputSchema":{"type":"object","properties":{"order_id":{"type":"string","description":"Number of the order."},"now":{"type":"string"},"tz":{"type":"string"},"a":{},"b":{},"c":{},"d":{},"e":{}}}},
{"name":"usage_guide","description":"Tells how to use this server.","inputSchema":{"type":"object"}}`

var blocks = map[string]string{
	"text":       `{"content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]}`,
	"nothing":    `{"content":[]}`,
	"absent":     `{}`,
	"structured": `{"content":[],"structuredContent":{"n":9223372036854775807,"b":2.50}}`,
	"embedded":   `{"content":[{"type":"resource","resource":{"uri":"bad://doc","mimeType":"text/plain","text":"inside"}}]}`,
	"blob":       `{"content":[{"type":"resource","resource":{"uri":"bad://pic","mimeType":"image/png","blob":"iVBORw0KGgo="}}]}`,
	"link":       `{"content":[{"type":"resource_link","uri":"bad://note","name":"note","title":"A note","mimeType":"text/plain","size":42}]}`,
	"audio":      `{"content":[{"type":"audio","data":"AAEC","mimeType":"audio/wav"}]}`,
	"other":      `{"content":[{"type":"hologram","data":[1,2]}]}`,
	"notbase64":  `{"content":[{"type":"image","data":"%%%","mimeType":"image/png"}]}`,
	"message":    `{"content":[{"type":"text","text":"{\"message\":\"order_id is required\"}"}]}`,
	"list":       `{"content":[{"type":"text","text":"{\"error\":[\"order_id is required\"]}"}]}`,
}

func rowsTool(name string, args json.RawMessage, result func(string) string, fail func(int, string) string) string {
	var a struct{ Kind string }
	_ = json.Unmarshal(args, &a) // no kind is fine
	switch name {
	case "strict":
		return fail(-32602, "Invalid arguments for tool strict")
	case "faint":
		file := filepath.Join(os.Getenv("HOME"), "fainted")
		if os.Mkdir(file, 0o700) == nil {
			os.Exit(9)
		}
		return result(`{"content":[{"type":"text","text":"awake"}]}`)
	case "blocks":
		return result(blocks[a.Kind])
	case "usage_guide":
		return result(`{"content":[{"type":"text","text":"use it well"}]}`)
	case "needy":
		var m map[string]any
		_ = json.Unmarshal(args, &m) // no object has no fields
		for _, field := range []string{"tz", "now", "a", "b", "c", "d", "e"} {
			if _, asked := m["chain"]; asked && m[field] == nil {
				return result(`{"content":[{"type":"text","text":"Missing required argument ` + field + `"}],"isError":true}`)
			}
		}
		if m["order_id"] == nil {
			return result(`{"content":[{"type":"text","text":"{\"error\":\"order_id is required\"}"}]}`)
		}
		return result(`{"content":[{"type":"text","text":"ordered"}]}`)
	}
	return ""
}

var promptLists atomic.Int64

// rowsList answers other requests than calls.
func rowsList(method string, params json.RawMessage, result func(string) string, fail func(int, string) string) string {
	switch {
	case method == "prompts/list" && modes["prompts"] == "unknown":
		return fail(-32601, "Method not found")
	case method == "prompts/list" && modes["prompts"] == "flaky" && promptLists.Add(1) > 1:
		return fail(-32000, "not now")
	case method == "resources/list" && has("no-resources"):
		return result(`{"resources":[]}`)
	case method == "resources/templates/list" && has("no-resources"):
		return result(`{"resourceTemplates":[]}`)
	case method == "resources/list" && has("many-resources"):
		var all []string
		for i := range 70 {
			all = append(all, `{"uri":"bad://r/`+string(rune('A'+i/10))+string(rune('0'+i%10))+`","name":"r"}`)
		}
		return result(`{"resources":[` + strings.Join(all, ",") + `]}`)
	case method == "resources/read" && strings.Contains(string(params), "bad://pic"):
		return result(`{"contents":[{"uri":"bad://pic","mimeType":"image/png","blob":"iVBORw0KGgo="}]}`)
	case method == "resources/read" && strings.Contains(string(params), "bad://note-that-fails"):
		return fail(-32602, "the disk is on fire")
	}
	return ""
}
