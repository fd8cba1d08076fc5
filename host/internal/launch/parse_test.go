package launch

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"
)

func TestParseReadsLogLinesOfAnyKind(t *testing.T) {
	for line, want := range map[string]string{
		`{"@level":"warn","@message":"low","@module":"p","n":12345678901234567890}`: `WARN low [@module p n 12345678901234567890]`,
		`{"@level":7,"@message":{"a":1},"@timestamp":[]}`:                           `DEBUG {"a":1} []`,
		`{"@message":null}`:      `DEBUG  []`,
		`[ERROR] it broke`:       `ERROR it broke []`,
		"plain\x1b[31m text\xff": "DEBUG plain·[31m text· []",
		`{"a":`:                  `DEBUG {"a": []`,
	} {
		level, text, pairs := parse([]byte(line))
		if got := strings.ToUpper(level.String()) + " " + text + " " + strings.TrimSpace(sprint(pairs)); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

func sprint(pairs []any) string {
	var out []string
	for _, p := range pairs {
		out = append(out, p.(string))
	}
	return "[" + strings.Join(out, " ") + "]"
}

func FuzzStderr(f *testing.F) {
	f.Add([]byte("panic: x\n{\"@message\":1}\n"), 3)
	f.Add([]byte(`{"@level":"info","@message":"m","k":[1,2]}`+"\r\n"), 100)
	f.Fuzz(func(t *testing.T, data []byte, chunk int) {
		var out bytes.Buffer
		s := newStderr(hclog.New(&hclog.LoggerOptions{Output: &out, Level: hclog.Trace}))
		l := &lines{to: s}
		for rest := data; len(rest) > 0; {
			n := min(max(1, chunk), len(rest))
			l.Write(rest[:n])
			rest = rest[n:]
		}
		l.flush()
		s.flush()
		tail := s.last()
		if len(tail) > max(tailLines, traceLines) {
			t.Errorf("%d lines kept", len(tail))
		}
		for _, line := range append(tail, out.String()) {
			if !utf8.ValidString(line) || strings.Contains(line, "\x1b") {
				t.Errorf("not fit for a terminal: %q", line)
			}
		}
	})
}

func FuzzHandshake(f *testing.F) {
	f.Add([]byte("1|1|unix|/x|grpc|" + strings.Repeat("A", 60) + "\n"))
	f.Add([]byte("1|1|unix|/x|grpc\n"))
	f.Add(bytes.Repeat([]byte("x"), maxHandshake+2))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, w := io.Pipe()
		got := make(chan []byte)
		go func() {
			b, _ := io.ReadAll(r)
			got <- b
		}()
		h := &handshake{instance: "p", to: w}
		for _, b := range data {
			h.Write([]byte{b})
		}
		h.end()
		passed := <-got
		wrong, done := h.verdict()
		if len(passed) > 0 && (!done || wrong != nil || bytes.Count(passed, []byte("\n")) != 1 || bytes.Count(passed, []byte("|")) < 5) {
			t.Errorf("passed on %q, verdict %v", passed, wrong)
		}
		if len(h.line) > maxHandshake+1 {
			t.Errorf("%d bytes kept", len(h.line))
		}
	})
}
