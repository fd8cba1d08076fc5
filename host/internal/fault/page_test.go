package fault

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/errors.md")

const page = "../../../docs/errors.md"

// markdown is the table as a page.
func markdown() string {
	var b strings.Builder
	b.WriteString(`# Errors

Every known fault has a code that never changes. An error carries it at the end of its text, JSON in the field ` + "`ref`" + `. Decide by the code or by the class, never by the words.

The class is what a caller gets as ` + "`code`" + `. "Again" says whether the same call can succeed later without a change.

This page is written by ` + "`go test ./host/internal/fault -update`" + ` from the table in that package.
`)
	chapter := ""
	chapters := map[byte]string{'1': "Host", '2': "Plugins", '3': "Config", '4': "MCP servers", '5': "Policy"}
	for _, r := range Rows() {
		if name := chapters[r.Ref[2]]; name != chapter {
			chapter = name
			fmt.Fprintf(&b, "\n## %s\n\n| code | what happened | class | again | what to do |\n|---|---|---|---|---|\n", name)
		}
		again := "no"
		if r.Retryable {
			again = "yes"
		}
		fmt.Fprintf(&b, "| %s | %s | `%s` | %s | %s |\n", r.Ref, r.Title, r.Class, again, r.Remedy)
	}
	return b.String()
}

func TestErrorsPage(t *testing.T) {
	want := markdown()
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/errors.md is older than the table; run go test ./host/internal/fault -update")
	}
}

// Rows say everything a reader needs, and stand in the order of their codes.
func TestRows(t *testing.T) {
	last := Ref("")
	for _, r := range Rows() {
		if r.Ref <= last {
			t.Errorf("%s stands after %s", r.Ref, last)
		}
		last = r.Ref
		if r.Title == "" || r.Remedy == "" || r.Class == "" {
			t.Errorf("%s is not complete: %+v", r.Ref, r)
		}
		if f := New(r.Ref, "x"); f.Class != r.Class || f.Retryable != r.Retryable {
			t.Errorf("%s makes %+v", r.Ref, f)
		}
	}
}
