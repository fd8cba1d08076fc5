package web

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"
)

const (
	// convertTime is how long one page is converted. Real pages take milliseconds;
	// it stands here for pages made to cost in a way that no bound foresees.
	convertTime = 20 * time.Second
	// converting is how many pages are converted at a time.
	converting = 4
)

// workshop converts pages within a time. Work that overruns can't be interrupted
// and keeps its place until it ends, so what all of it takes stays bounded.
type workshop struct {
	places chan struct{}
	time   time.Duration
}

func newWorkshop() *workshop {
	return &workshop{places: make(chan struct{}, converting), time: convertTime}
}

// convert gives what work makes of a page or, when that takes too long, what bare
// does, which must be quick.
func (w *workshop) convert(ctx context.Context, work, bare func() document) (document, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, w.time, errOverrun)
	defer cancel()
	select {
	case w.places <- struct{}{}:
	case <-ctx.Done():
		return w.instead(ctx, bare)
	}
	done := make(chan document, 1)
	failed := make(chan any, 1)
	go func() {
		defer func() {
			<-w.places
			if fault := recover(); fault != nil {
				failed <- fault
			}
		}()
		done <- work()
	}()
	select {
	case doc := <-done:
		return doc, nil
	case fault := <-failed: // one page's, not the plugin's
		doc := bare()
		doc.note = fmt.Sprintf("the page could not be laid out (%v); this is its bare text", fault)
		return doc, nil
	case <-ctx.Done():
		return w.instead(ctx, bare)
	}
}

// html converts a whole page.
func (w *workshop) html(ctx context.Context, source string, at *url.URL) (document, error) {
	return w.convert(ctx, func() document { return convertHTML(source, at) }, func() document { return bareDocument(source) })
}

var errOverrun = errors.New("the page was not converted in time")

func (w *workshop) instead(ctx context.Context, bare func() document) (document, error) {
	if !errors.Is(context.Cause(ctx), errOverrun) {
		return document{}, ctx.Err()
	}
	doc := bare()
	doc.note = fmt.Sprintf("the page could not be laid out within %s; this is its bare text", w.time)
	return doc, nil
}
