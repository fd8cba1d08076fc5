package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// deaf stops the reading of stdin.
var deaf atomic.Bool

var stormed atomic.Int64

// storm sends one kind of message as fast as it goes, for some milliseconds or so
// many times.
func (s *server) storm(args json.RawMessage) string {
	var a struct {
		Kind string
		MS   int // how long
		N    int // or how many
		Deaf bool
	}
	_ = json.Unmarshal(args, &a) // nothing is no storm
	deaf.Store(a.Deaf)
	line := func(n int64) string {
		switch a.Kind {
		case "ping":
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, n)
		case "ask":
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}}}}`, n)
		case "list":
			return `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
		case "log":
			return `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"again"}}`
		case "noise":
			return "noise noise noise"
		case "long":
			return `{"a":"` + strings.Repeat("x", 65<<20) + `"}`
		}
		return ""
	}
	for end := time.Now().Add(time.Duration(a.MS) * time.Millisecond); ; {
		var out strings.Builder
		for range 100 {
			out.WriteString(line(stormed.Add(1)))
			if a.Kind == "long" {
				break
			}
			out.WriteByte('\n')
		}
		s.write(strings.TrimSuffix(out.String(), "\n"))
		if a.N -= 100; a.N <= 0 && time.Now().After(end) {
			return "over"
		}
	}
}
