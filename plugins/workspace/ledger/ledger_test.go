package ledger

import (
	"errors"
	"fmt"
	"testing"
)

func kind(err error) string {
	var r *Reason
	if errors.As(err, &r) {
		return r.Kind
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func TestOnlyWhatWasSeenWholeMayBeReplaced(t *testing.T) {
	var l Ledger
	v1, v2 := Of([]byte("one")), Of([]byte("two"))
	want := func(what string, err error, is string) {
		t.Helper()
		if kind(err) != is {
			t.Errorf("%s: %v, want %q", what, err, is)
		}
	}
	want("at first", l.Check("s", "a", v1), "never")
	l.Saw("s", "a", v1, 1, 10, 30)
	l.Saw("s", "a", v1, 21, 30, 30)
	err := l.Check("s", "a", v1)
	want("with a gap", err, "partial")
	var r *Reason
	if errors.As(err, &r); r.Next != 11 || r.Seen != "1–10, 21–30" {
		t.Errorf("%+v", r)
	}
	l.Saw("s", "a", v1, 8, 20, 30)
	want("read in pages", l.Check("s", "a", v1), "")
	want("in another session", l.Check("other", "a", v1), "never")
	want("changed since", l.Check("s", "a", v2), "stale")
	want("a copy elsewhere", l.Check("s", "b", v1), "")
	l.Knows("s", "c", v2, 0)
	want("an empty file of its own", l.Check("s", "c", v2), "")
}

func TestAnEditKeepsWhatWasKnown(t *testing.T) {
	var l Ledger
	v1, v2, v3 := Of([]byte("1")), Of([]byte("2")), Of([]byte("3"))
	l.Saw("s", "a", v1, 1, 5, 5)
	l.Edited("s", "a", v1, v2, 6)
	if err := l.Check("s", "a", v2); err != nil {
		t.Errorf("after reading all: %v", err)
	}
	l.Saw("s", "a", v3, 1, 2, 9)
	l.Edited("s", "a", v3, v1, 9)
	if kind(l.Check("s", "a", v1)) != "never" {
		t.Error("after reading a part, all is known")
	}
}

func TestTheLedgerIsBounded(t *testing.T) {
	var l Ledger
	h := Of(nil)
	for i := range maxEntries + 10 {
		l.Knows("s", fmt.Sprint(i), Of([]byte(fmt.Sprint(i))), 1)
	}
	if n := len(l.entries); n > maxEntries || n < maxEntries/2 {
		t.Errorf("%d entries", n)
	}
	if kind(l.Check("s", "0", h)) != "never" || l.Check("s", fmt.Sprint(maxEntries+9), Of([]byte(fmt.Sprint(maxEntries+9)))) != nil {
		t.Error("not the oldest went")
	}
}
