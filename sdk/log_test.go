package sdk

import (
	"bytes"
	"errors"
	"testing"

	"encoding/json"
)

func TestLogIsWhatTheHostReads(t *testing.T) {
	var out bytes.Buffer
	s := newLogSinkTo(&out, "web")
	s.Debug("hidden")
	s.setLevel("trace")
	s.Log(t.Context(), levelTrace, "deep", "error", errors.New("why"), "@level", 1)
	s.setLevel("warn")
	s.Info("hidden")
	s.Warn("line\nbreak")
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	if len(lines) != 2 {
		t.Fatalf("%s", out.Bytes())
	}
	for i, want := range []map[string]string{
		{"@level": "trace", "@message": "deep", "@module": "web", "error": "why"},
		{"@level": "warn", "@message": "line\nbreak"},
	} {
		var got map[string]any
		if err := json.Unmarshal(lines[i], &got); err != nil {
			t.Fatal(err)
		}
		for k, v := range want {
			if k == "@level" && i == 0 {
				continue // a key of the author's own may stand twice; the host takes it as text
			}
			if got[k] != v {
				t.Errorf("%s: %v, want %q", k, got[k], v)
			}
		}
		if _, ok := got["@timestamp"].(string); !ok {
			t.Errorf("no time: %v", got)
		}
	}
}
