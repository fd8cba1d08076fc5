package cron

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
	_ "time/tzdata"
)

// vectors reads a file of outside vectors, or skips.
func vectors[T any](t *testing.T, name string) []T {
	t.Helper()
	dir := cmp.Or(os.Getenv("CRON_VECTORS"), "../../../../shared/data/cron")
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Skipf("no vectors: %v; CRON_VECTORS=DIR names another folder", err)
	}
	var out []T
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	if len(out) == 0 {
		t.Fatal("no vectors in " + name)
	}
	return out
}

// differences from the vectors' library, and why.
var differences = map[string]time.Time{
	// 0:30 is skipped that day, so it is due at 1:00, when the gap ends. That library
	// says so too when asked before 1:00, but not when asked at 1:00 "inclusive", a
	// question that we don't have: next is strictly after.
	"30 0 L * * 2017-03-31T01:00:00+03:00": time.Date(2017, 3, 30, 22, 0, 0, 0, time.UTC),
}

func TestNextVectors(t *testing.T) {
	for _, v := range vectors[struct {
		Expr, TZ, From, Expected string
		Inclusive                bool
	}](t, "cronos_next.json") {
		zone, err := time.LoadLocation(v.TZ)
		if err != nil {
			t.Fatal(err)
		}
		e, err := Parse(v.Expr)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		from, err := time.Parse(time.RFC3339Nano, v.From)
		if err != nil {
			t.Fatal(err)
		}
		if v.Inclusive {
			from = from.Add(-time.Second)
		}
		want, err := time.Parse(time.RFC3339Nano, v.Expected)
		if err != nil {
			t.Fatal(err)
		}
		got := e.Next(from, zone)
		if at, ok := differences[v.Expr+" "+v.From]; ok {
			want = at
		}
		if !got.Equal(want) {
			t.Errorf("%q in %s after %s (inclusive %t): %s, want %s", v.Expr, v.TZ, v.From, v.Inclusive, got, v.Expected)
		}
	}
}

func TestInvalidVectors(t *testing.T) {
	for _, v := range vectors[struct{ Expr string }](t, "cronos_invalid.json") {
		if e, err := Parse(v.Expr); err == nil {
			t.Errorf("%q is taken as %q", v.Expr, e)
		}
	}
}

func TestUnreachableVectors(t *testing.T) {
	for _, v := range vectors[struct{ Expr string }](t, "cronos_unreachable.json") {
		if e, err := Parse(v.Expr); err == nil {
			t.Errorf("%q is taken, and next due %s", v.Expr, e.Next(time.Unix(0, 0), time.UTC))
		}
	}
}
