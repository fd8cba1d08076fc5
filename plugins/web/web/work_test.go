package web

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// A page that takes too long comes as its bare text, keeps its place until it is
// done, and holds nobody up for longer than a page may take.
func TestOverrunningConversion(t *testing.T) {
	w := &workshop{places: make(chan struct{}, 2), time: 50 * time.Millisecond}
	bare := func() document { return document{markdown: "bare"} }
	release := make(chan struct{})
	for range 2 {
		doc, err := w.convert(t.Context(), func() document { <-release; return document{} }, bare)
		if err != nil || doc.markdown != "bare" || !strings.Contains(doc.note, "could not be laid out within 50ms") {
			t.Errorf("%v %+v", err, doc)
		}
	}
	ran := false
	doc, err := w.convert(t.Context(), func() document { ran = true; return document{} }, bare)
	if err != nil || doc.markdown != "bare" || ran {
		t.Errorf("%v %+v; there was no place for it", err, doc)
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	if _, err := w.convert(left, func() document { return document{} }, bare); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(release)
	w.places <- struct{}{} // a place becomes free when the work ends
	<-w.places
	w.time = time.Minute
	if doc, err := w.convert(t.Context(), func() document { return document{markdown: "made"} }, bare); err != nil || doc.markdown != "made" {
		t.Errorf("%v %+v", err, doc)
	}
	doc, err = w.convert(t.Context(), func() document { panic("a fault") }, bare)
	if err != nil || doc.markdown != "bare" || !strings.Contains(doc.note, "(a fault)") {
		t.Errorf("%v %+v", err, doc)
	}
}
