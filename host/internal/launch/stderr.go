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
	tail    [tailLines][]byte // a ring
	tailAt  int
	trace   []string
	records float64 // tokens
	bytes   float64
	at      time.Time
	dropped int
	noticed time.Time
}

func newStderr(log hclog.Logger) *stderr {
	return &stderr{log: log, records: linesBurst, bytes: bytesBurst, at: time.Now()}
}

// lines cuts what one stream writes into lines for a stderr.
type lines struct {
	to   *stderr
	mu   sync.Mutex
	buf  []byte
	skip bool // the rest of a line that was cut
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		head, rest, ended := bytes.Cut(p, []byte("\n"))
		p = rest
		if !l.skip {
			room := maxLine - len(l.buf)
			l.buf = append(l.buf, head[:min(len(head), room)]...)
			if len(head) > room {
				l.skip = true
				l.give()
			}
		}
		if ended {
			if !l.skip {
				l.give()
			}
			l.skip = false
		}
	}
	return n, nil
}

func (l *lines) give() {
	l.to.line(l.buf)
	l.buf = l.buf[:0]
}

// flush takes what stands without an end of line.
func (l *lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.give()
}

// flush tells what was dropped.
func (s *stderr) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notice(true)
}

// line takes one line. What is not logged is not parsed either.
func (s *stderr) line(line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line = bytes.TrimRight(line, "\r")
	size := len(line)
	if size == 0 {
		return
	}
	panics := len(s.trace) > 0 || bytes.HasPrefix(line, []byte("panic: ")) || bytes.HasPrefix(line, []byte("fatal error: "))
	if panics && len(s.trace) < traceLines {
		s.trace = append(s.trace, cut(string(line), tailWidth))
	}
	// The ring's slots are used again: a flood allocates nothing.
	slot := &s.tail[s.tailAt%tailLines]
	*slot = append((*slot)[:0], line[:min(size, tailWidth)]...)
	s.tailAt++

	now := time.Now()
	gone := now.Sub(s.at).Seconds()
	s.at = now
	s.records = min(linesBurst, s.records+gone*linesASecond)
	s.bytes = min(bytesBurst, s.bytes+gone*bytesASecond)
	if s.records < 1 || s.bytes < float64(size) {
		s.dropped++
		s.notice(false)
		return
	}
	s.records--
	s.bytes -= float64(size)
	s.notice(false)
	level, text, pairs := parse(line)
	if panics {
		level = hclog.Error
	}
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
	var out []string
	for i := max(0, s.tailAt-tailLines); i < s.tailAt; i++ {
		_, text, pairs := parse(s.tail[i%tailLines])
		for i := 0; i+1 < len(pairs); i += 2 {
			text += fmt.Sprintf(" %v=%v", pairs[i], pairs[i+1])
		}
		out = append(out, cut(text, tailWidth))
	}
	return out
}

var textLevels = map[string]hclog.Level{
	"[TRACE]": hclog.Trace, "[DEBUG]": hclog.Debug, "[INFO]": hclog.Info, "[WARN]": hclog.Warn, "[ERROR]": hclog.Error,
}

// parse makes level, message and key-value pairs of one line, whatever it holds.
func parse(line []byte) (hclog.Level, string, []any) {
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
