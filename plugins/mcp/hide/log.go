package hide

import (
	"context"
	"log/slog"
)

// Log is a handler that takes the values out of what h is given: the message, and
// attributes that are texts, errors and the like.
func Log(h slog.Handler, v *Values) slog.Handler {
	if v == nil {
		return h
	}
	return handler{h, v}
}

type handler struct {
	slog.Handler
	v *Values
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, h.v.Text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, out)
}

func (h handler) attr(a slog.Attr) slog.Attr {
	text := a.Value.Resolve().String()
	if clean := h.v.Text(text); clean != text {
		return slog.String(a.Key, clean)
	}
	return a
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = h.attr(a)
	}
	return handler{h.Handler.WithAttrs(clean), h.v}
}

func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.Handler.WithGroup(name), h.v}
}
