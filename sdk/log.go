package sdk

import (
	"io"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
)

// stderr is the real one: serving swaps os.Stderr for a pipe, and what is logged
// must reach the host even when that pipe is stuck.
var stderr = os.Stderr

// levelTrace is below slog's own levels, as the host has it.
const levelTrace = slog.Level(-8)

// logSink writes log records in the JSON form that the host reads: hclog's.
type logSink struct {
	level slog.LevelVar
	*slog.Logger
}

func newLogSink(name string) *logSink { return newLogSinkTo(stderr, name) }

func newLogSinkTo(w io.Writer, name string) *logSink {
	s := &logSink{}
	s.Logger = slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{
		Level: &s.level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) > 0 {
				return a
			}
			switch a.Key {
			case slog.TimeKey:
				return slog.String("@timestamp", a.Value.Time().Format("2006-01-02T15:04:05.000000Z07:00"))
			case slog.LevelKey:
				return slog.String("@level", levelName(a.Value.Any()))
			case slog.MessageKey:
				return slog.String("@message", a.Value.String())
			}
			return a
		},
	})).With("@module", name)
	return s
}

func levelName(v any) string {
	level, ok := v.(slog.Level)
	switch {
	case !ok || level >= slog.LevelError:
		return "error"
	case level >= slog.LevelWarn:
		return "warn"
	case level >= slog.LevelInfo:
		return "info"
	case level >= slog.LevelDebug:
		return "debug"
	}
	return "trace"
}

func (s *logSink) setLevel(name string) {
	switch strings.ToLower(name) {
	case "trace":
		s.level.Set(levelTrace)
	case "debug":
		s.level.Set(slog.LevelDebug)
	case "info":
		s.level.Set(slog.LevelInfo)
	case "warn", "warning":
		s.level.Set(slog.LevelWarn)
	case "error":
		s.level.Set(slog.LevelError)
	}
}

var served atomic.Pointer[logSink]

// Logger is the plugin's log: the host writes it into its own under the plugin's
// name. It works before Serve, too.
func Logger() *slog.Logger {
	if s := served.Load(); s != nil {
		return s.Logger
	}
	return early.Logger
}

var early = newLogSink("plugin")

// Logger is this plugin's log.
func (p *Plugin) Logger() *slog.Logger {
	p.init()
	return p.log.Logger
}
