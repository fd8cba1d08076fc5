package calendar

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const script = `
const ICAL = require(process.argv[1]);
const text = require('fs').readFileSync(0, 'utf8');
const cal = new ICAL.Component(ICAL.parse(text));
console.log(JSON.stringify(cal.getAllSubcomponents('vevent').map(c => {
  const e = new ICAL.Event(c);
  return {uid: e.uid, summary: e.summary, description: e.description, start: e.startDate.toJSDate().toISOString(), end: e.endDate.toJSDate().toISOString(), categories: c.getFirstPropertyValue('categories')};
})));
`

// The calendar is read by a parser that nobody here wrote: ical.js, Mozilla's.
func TestReadByAnother(t *testing.T) {
	modules, err := filepath.Abs("../../../tools/npm/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	library := filepath.Join(modules, "ical.js", "dist", "ical.es5.cjs")
	if _, err := os.Stat(library); err != nil {
		t.Skipf("ical.js is not installed (%v); `make tools` does it", err)
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skipf("no node: %v; `make tools` installs it", err)
	}
	at := time.Date(2026, 3, 29, 1, 30, 0, 0, time.FixedZone("CET", 3600))
	events := []Event{
		{ID: "t_a-1", Name: "Plain", Agent: "ann", Description: "Write the report.", At: at},
		{ID: "t_b-2", Name: "Comma, semicolon; back\\slash", Agent: "bob, the second", Description: "Line one\nLine two; with \"quotes\"\x00 and a bell\a", At: at.Add(36 * time.Hour)},
		{ID: "t_c-3", Name: strings.Repeat("Überlänge 日本語 ", 20), Agent: "c", Description: strings.Repeat("x", 400), At: at.Add(time.Second)},
		{ID: "t_d\r\nATTACH:http://evil", Name: "END:VEVENT\r\nBEGIN:VEVENT", Agent: "d", Description: "d", At: at},
	}
	text := Write(events, at)
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\r\n"), "\r\n") {
		if len(line) > 75 || strings.Contains(line, "\n") {
			t.Errorf("a line of %d bytes: %q", len(line), line)
		}
	}
	cmd := exec.Command(node, "-e", script, library)
	cmd.Stdin = strings.NewReader(text)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ical.js: %v %s\n%s", err, errs.String(), text)
	}
	var read []struct{ UID, Summary, Description, Start, End, Categories string }
	if err := json.Unmarshal(out, &read); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if len(read) != len(events) {
		t.Fatalf("%d events are read of %d", len(read), len(events))
	}
	for i, e := range events {
		got := read[i]
		if got.UID != clean(e.ID)+"@bulkhead" && !strings.Contains(e.ID, "\n") || got.Summary != strings.TrimSpace(clean(e.Name)) && got.Summary != clean(e.Name) || got.Description != clean(e.Description) || got.Categories != e.Agent ||
			got.Start != e.At.UTC().Format("2006-01-02T15:04:05.000Z") || got.End != e.At.Add(time.Minute).UTC().Format("2006-01-02T15:04:05.000Z") {
			t.Errorf("%+v\nread as %+v", e, got)
		}
	}
}
