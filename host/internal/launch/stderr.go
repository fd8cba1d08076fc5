package launch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Bounds of what a plugin's stderr may cost: the length of a line, what is kept,
// and what is logged a second.
const (
	maxLine       = 8 << 10
	tailLines     = 20
	tailWidth     = 1 << 10
	traceLines    = 60
	linesASecond  = 200
	linesBurst    = 2000
	bytesASecond  = 256 << 10
	bytesBurst    = 1 << 20
	maxLogPairs   = 24
	droppedNotice = time.Second
)

// stderr logs what a plugin writes on stderr. It reads hclog's JSON when it is
// that, whatever its types, and text otherwise.
type stderr struct {
	log hclog.Logger

	mu      sync.Mutex
	buf     []byte
	skip    bool // the rest of a line that was cut
	tail    []string
	trace   []string
	lines   float64 // tokens
	bytes   float64
	at      time.Time
	dropped int
	noticed time.Time
}

func newStderr(log hclog.Logger) *stderr {
	return &stderr{log: log, lines: linesBurst, bytes: bytesBurst, at: time.Now()}
}

func (s *stderr) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		head, rest, ended := bytes.Cut(p, []byte("\n"))
		p = rest
		if !s.skip {
			room := maxLine - len(s.buf)
			s.buf = append(s.buf, head[:min(len(head), room)]...)
			if len(head) > room {
				s.skip = true
				s.line()
			}
		}
		if ended {
			if !s.skip {
				s.line()
			}
			s.skip = false
		}
	}
	return n, nil
}

// flush logs what stands without an end of line, and what was dropped.
func (s *stderr) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.buf) > 0 {
		s.line()
	}
	s.notice(true)
}

// line takes the line in buf.
func (s *stderr) line() {
	level, text, pairs := parse(s.buf)
	size := len(s.buf)
	s.buf = s.buf[:0]
	if text == "" && len(pairs) == 0 {
		return
	}
	if strings.HasPrefix(text, "panic: ") || strings.HasPrefix(text, "fatal error: ") || len(s.trace) > 0 {
		level = hclog.Error
		if len(s.trace) < traceLines {
			s.trace = append(s.trace, cut(text, tailWidth))
		}
	}
	kept := text
	for i := 0; i+1 < len(pairs); i += 2 {
		kept += fmt.Sprintf(" %v=%v", pairs[i], pairs[i+1])
	}
	if len(s.tail) == tailLines {
		s.tail = slices.Delete(s.tail, 0, 1)
	}
	s.tail = append(s.tail, cut(kept, tailWidth))

	now := time.Now()
	gone := now.Sub(s.at).Seconds()
	s.at = now
	s.lines = min(linesBurst, s.lines+gone*linesASecond)
	s.bytes = min(bytesBurst, s.bytes+gone*bytesASecond)
	if s.lines < 1 || s.bytes < float64(size) {
		s.dropped++
		s.notice(false)
		return
	}
	s.lines--
	s.bytes -= float64(size)
	s.notice(false)
	s.log.Log(level, text, pairs...)
}

func (s *stderr) notice(last bool) {
	if s.dropped == 0 || !last && time.Since(s.noticed) < droppedNotice {
		return
	}
	s.log.Warn("the plugin writes more to stderr than is logged", "lines_dropped", s.dropped)
	s.dropped, s.noticed = 0, time.Now()
}

// last is the panic trace when there is one, else the last lines.
func (s *stderr) last() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.trace) > 0 {
		return slices.Clone(s.trace)
	}
	return slices.Clone(s.tail)
}

var textLevels = map[string]hclog.Level{
	"[TRACE]": hclog.Trace, "[DEBUG]": hclog.Debug, "[INFO]": hclog.Info, "[WARN]": hclog.Warn, "[ERROR]": hclog.Error,
}

// parse makes level, message and key-value pairs of one line, whatever it holds.
func parse(line []byte) (hclog.Level, string, []any) {
	line = bytes.TrimRight(line, "\r")
	if len(line) > 1 && line[0] == '{' {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(line, &fields); err == nil {
			return parseJSON(fields)
		}
	}
	text := printable(string(line))
	for prefix, level := range textLevels {
		if strings.HasPrefix(text, prefix) {
			return level, strings.TrimSpace(strings.TrimPrefix(text, prefix)), nil
		}
	}
	return hclog.Debug, text, nil
}

func parseJSON(fields map[string]json.RawMessage) (hclog.Level, string, []any) {
	level := hclog.LevelFromString(plain(fields["@level"]))
	if level == hclog.NoLevel || level == hclog.Off {
		level = hclog.Debug
	}
	text := plain(fields["@message"])
	var keys []string
	for k := range fields {
		if k != "@level" && k != "@message" && k != "@timestamp" {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	var pairs []any
	for _, k := range keys[:min(len(keys), maxLogPairs)] {
		pairs = append(pairs, printable(k), plain(fields[k]))
	}
	return level, text, pairs
}

// plain is a JSON string's text, or the JSON of anything else.
func plain(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return printable(s)
	}
	return printable(string(raw))
}

// printable keeps control characters and broken UTF-8 out of logs and terminals.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '·'
		}
		return r
	}, strings.ToValidUTF8(s, "·"))
}
