package downstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/internal/badtest"
)

type oddLine struct {
	line, fill string
	n          int
	want       string // in the error; "=" and the result otherwise
	rpc        bool   // the error is one of JSON-RPC
}

func (o oddLine) arguments(t *testing.T) string {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"line": o.line, "fill": o.fill, "n": o.n})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Whatever a program writes in place of an answer, the call ends at once, with what
// was wrong, and the connection lives: in the bridge and by way of a worker.
func TestOddAnswersEndTheirCall(t *testing.T) {
	const ok = `{"jsonrpc":"2.0","id":ID,"result":{}}`
	rows := map[string]oddLine{
		"a code that is a text":    {line: `{"jsonrpc":"2.0","id":ID,"error":{"code":"ENOENT","message":"no such file"}}`, want: "no such file (code ENOENT) (JSON-RPC -32603)", rpc: true},
		"a code with a fraction":   {line: `{"jsonrpc":"2.0","id":ID,"error":{"code":-1.5,"message":"half"}}`, want: "half (code -1.5)", rpc: true},
		"a code that is huge":      {line: `{"jsonrpc":"2.0","id":ID,"error":{"code":1e300,"message":"huge"}}`, want: "huge (code 1e300)", rpc: true},
		"a number for an error":    {line: `{"jsonrpc":"2.0","id":ID,"error":5}`, want: "can't be read: 5", rpc: true},
		"a list for an error":      {line: `{"jsonrpc":"2.0","id":ID,"error":[]}`, want: "can't be read: []", rpc: true},
		"a text for an error":      {line: `{"jsonrpc":"2.0","id":ID,"error":"it broke"}`, want: "it broke", rpc: true},
		"a message that is none":   {line: `{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":{"a":1}}}`, want: `{"a":1}`, rpc: true},
		"an error with much data":  {line: `{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"much","data":[FILL1]}}`, fill: "1,", n: 2_000_000, want: "much (code 1)", rpc: true},
		"a revision that is none":  {line: `{"jsonrpc":2.0,"id":ID,"result":{"a":1}}`, want: `={"a":1}`},
		"a method that is none":    {line: `{"jsonrpc":"2.0","method":5,"id":ID,"result":{"a":1}}`, want: `={"a":1}`},
		"no result":                {line: `{"jsonrpc":"2.0","id":ID}`, want: "neither a result nor an error"},
		"NaN":                      {line: `{"jsonrpc":"2.0","id":ID,"result":{"a":NaN}}`, want: "invalid character 'N'"},
		"an id at the end":         {line: `{"jsonrpc":"2.0","result":{"a":"FILL","b":NaN},"id":ID}`, fill: "x", n: 100_000, want: "invalid character 'N'"},
		"cut off":                  {line: `{"jsonrpc":"2.0","result":{"a":1`, want: "unexpected end"},
		"a mark":                   {line: "\uFEFF" + `{"jsonrpc":"2.0","id":ID,"result":{"a":1}}`, want: `={"a":1}`},
		"a batch cut off":          {line: `[{"jsonrpc":"2.0","id":ID,"result":{"a":1}}`, want: "unexpected end"},
		"a batch":                  {line: `[1,{"jsonrpc":"2.0","id":ID,"result":{"a":1}}]`, want: `={"a":1}`},
		"a batch of very many":     {line: `[` + ok + `,FILL1]`, fill: "1,", n: 2_000_000, want: "a batch of 2000002 messages; at most 10000"},
		"nested past all readers":  {line: `{"jsonrpc":"2.0","id":ID,"result":{"a":FILL`, fill: "[", n: 20_000, want: "exceeded max depth"},
		"nested past the host":     {line: `{"jsonrpc":"2.0","id":ID,"result":{"a":` + strings.Repeat("[", 1500) + strings.Repeat("]", 1500) + `}}`, want: "nested deeper than 1000 levels"},
		"very many blocks":         {line: `{"jsonrpc":"2.0","id":ID,"result":{"content":[FILL1]}}`, fill: "1,", n: 2_000_000, want: `its "content" has 2000001 entries`},
		"a block of very much":     {line: `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text"FILL}]}}`, fill: `,"a":1`, n: 200_000, want: "200001 entries"},
		"very many members":        {line: `{"jsonrpc":"2.0","id":ID,"result":{"content":[]FILL}}`, fill: `,"a":1`, n: 200_000, want: "200001 members"},
		"many rows in a structure": {line: `{"jsonrpc":"2.0","id":ID,"result":{"structuredContent":{"a":[FILL1]}}}`, fill: "1,", n: 20_000, want: `={"structuredContent":{"a":[1,1,`},
	}
	for _, isolated := range []bool{false, true} {
		ctx := badtest.Within(t, 2*time.Minute)
		c, err := Connect(ctx, Target{Name: "bad", Command: []string{badtest.Bad(t)}, Log: quietLog(), CallTimeout: time.Minute, Walls: Walls{Home: t.TempDir()}, Isolated: isolated, Known: Known{Stdio, Legacy}}, Events{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		for name, o := range rows {
			got, err := call(badtest.Within(t, 30*time.Second), c, "line", o.arguments(t))
			if want, result := strings.CutPrefix(o.want, "="); result {
				if err != nil || !strings.HasPrefix(got, want) {
					t.Errorf("%s: %.100s %v", name, got, err)
				}
				continue
			}
			if err == nil || !strings.Contains(err.Error(), o.want) || len(err.Error()) > 3000 || Broken(err) || errors.As(err, new(*RPCError)) != o.rpc || errors.As(err, new(*AnswerError)) == o.rpc {
				t.Errorf("%s: %.100s %v (broken %t)", name, got, err, Broken(err))
			}
		}
		if _, err := call(ctx, c, "echo", "{}"); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		badtest.Await(t, "the odd lines to be counted", func() bool { return c.Noise().Lines >= noiseLogged })
	}
}

// What a line costs is told by its bytes, not by how many entries it has.
func TestManyEntriesAreNotReadOneByOne(t *testing.T) {
	ctx := badtest.Within(t, time.Minute)
	c, err := stdio(t, ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`{"jsonrpc":"2.0","id":ID,"result":{"content":[FILL1]}}`, `[{"jsonrpc":"2.0","id":ID,"result":{}},FILL1]`, `{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"m","data":[FILL1]}}`} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := call(ctx, c, "line", oddLine{line: line, fill: "1,", n: 4_000_000}.arguments(t))
		runtime.ReadMemStats(&after)
		// An entry costs two bytes of the line, of which there are a few copies, and 24
		// and more once it is read.
		if cost := (after.TotalAlloc - before.TotalAlloc) >> 20; err == nil || cost > 160 {
			t.Errorf("%.60s: %d MiB, %v", line, cost, err)
		}
	}
}

// In a stream an answer to what nobody asked costs nothing but itself.
func TestAStreamWithAnAnswerToNothing(t *testing.T) {
	const other, own = "data: {\"jsonrpc\":\"2.0\",\"id\":\"other\",\"result\":{}}\n\n", "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"a\":1}}\n\n"
	for stream, want := range map[string]string{other + own: `{"a":1}`, own: `{"a":1}`, own + other: `{"a":1}`, other: ""} {
		ctx := badtest.Within(t, 30*time.Second)
		c := overHTTP(t, ctx, httpServer(t, func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, strings.Replace(stream, "%s", id, 1))
		}))
		got, err := call(ctx, c, "echo", "{}")
		if got != want || (want == "" && (err == nil || !strings.Contains(err.Error(), "the id other"))) {
			t.Errorf("%q: %s %v", stream, got, err)
		}
	}
}

// A line that nobody waits for stays a stray one, and a call that has its own answer
// coming is not ended by it.
func TestStrayLinesEndNoCall(t *testing.T) {
	ctx := badtest.Within(t, time.Minute)
	c, err := stdio(t, ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`{"jsonrpc":"2.0","id":"other","result":NaN}`, `{"jsonrpc":"2.0","method":"notifications/message","params":NaN}`, `{"level":"info","x":NaN}`, `[INFO] hello`, `{"jsonrpc":"2.0","id":"bulkhead-1","result":NaN}`} {
		if got, err := call(ctx, c, "line", oddLine{line: line + "\n" + `{"jsonrpc":"2.0","id":ID,"result":{"a":1}}`}.arguments(t)); err != nil || got != `{"a":1}` {
			t.Errorf("%s: %s %v", line, got, err)
		}
	}
}

func TestShape(t *testing.T) {
	for raw, want := range map[string]string{
		`{}`: "", `{"a":"[[[{{{\"[","b":"\\"}`: "", `[1,2,3]`: "", `"x"`: "", `{"content":[` + strings.Repeat(`1,`, maxEntries) + `1]}`: "10001 entries",
		`{"content":[` + strings.Repeat(`1,`, maxEntries-1) + `1]}`:                                      "",
		`{"content":[{"type":"hologram","data":[` + strings.Repeat(`1,`, maxEntries) + `1]}]}`:           "",
		`{"structuredContent":[` + strings.Repeat(`1,`, maxEntries) + `1],"content":[1]}`:                "",
		`{"a":` + strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth) + `}`:                    "deeper",
		`{"tools":[{"inputSchema":{"properties":{` + strings.Repeat(`"a":1,`, maxEntries) + `"b":1}}}]}`: "10001 entries",
	} {
		if err := checkShape([]byte(raw)); (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%.60s: %v", raw, err)
		}
	}
	for _, broken := range []string{`"`, `{"a`, `]]]`, `\"`, `{"a\`} {
		_ = checkShape([]byte(broken)) // nothing is read past its end
		_ = topEntries([]byte(broken))
	}
}

// Over HTTP the same costs a server's call no more, in one answer and in a stream.
func TestOddAnswersOverHTTP(t *testing.T) {
	const many = 4_000_000
	much := "[" + strings.Repeat("1,", many) + "1]"
	ok := `{"jsonrpc":"2.0","id":%s,"result":{"a":1}}`
	for name, row := range map[string]struct {
		before, answer string
		want           string // in the error; empty = the result comes
	}{
		"an error with much data":  {"", `{"jsonrpc":"2.0","id":%s,"error":{"code":1,"message":"much","data":` + much + `}}`, "much (code 1)"},
		"a text for an error":      {"", `{"jsonrpc":"2.0","id":%s,"error":"it broke"}`, "it broke"},
		"a code that is a text":    {"", `{"jsonrpc":"2.0","id":%s,"error":{"code":"ENOENT","message":"no such file"}}`, "no such file (code ENOENT)"},
		"a notice of very much":    {`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":` + much + `}}`, ok, ""},
		"a question of very much":  {`{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"?","x":` + much + `}}`, ok, ""},
		"a notice that is deep":    {`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":` + strings.Repeat("[", many) + strings.Repeat("]", many) + `}}`, ok, ""},
		"an answer to naught":      {`{"jsonrpc":"2.0","id":"other","error":{"code":1,"message":"m","data":` + much + `}}`, ok, ""},
		"an answer over two lines": {"", "{\"jsonrpc\":\"2.0\",\n\"id\":%s,\n\"error\":{\"code\":\"x\",\n\"message\":\"two\"}}", "two (code x)"},
	} {
		for _, stream := range []bool{false, true} {
			if !stream && row.before != "" {
				continue
			}
			ctx := badtest.Within(t, time.Minute)
			c := overHTTP(t, ctx, httpServer(t, func(w http.ResponseWriter, id string) {
				answer := strings.Replace(row.answer, "%s", id, 1)
				if stream {
					w.Header().Set("Content-Type", "text/event-stream")
					for _, m := range []string{row.before, answer} {
						if m != "" {
							fmt.Fprintf(w, "event: message\ndata: %s\n\n", strings.ReplaceAll(m, "\n", "\ndata: "))
						}
					}
					return
				}
				fmt.Fprint(w, answer)
			}))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, err := call(ctx, c, "echo", "{}")
			runtime.ReadMemStats(&after)
			if cost := (after.TotalAlloc - before.TotalAlloc) >> 20; cost > 200 { // the server's own copies among it
				t.Errorf("%s (stream %v): %d MiB", name, stream, cost)
			}
			if (row.want == "") != (err == nil) || (err == nil && got != `{"a":1}`) || (err != nil && (!strings.Contains(err.Error(), row.want) || Broken(err))) {
				t.Errorf("%s (stream %v): %.100s %.300v", name, stream, got, err)
			}
		}
	}
}
