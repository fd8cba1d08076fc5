package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"

	safe "github.com/bulkhead-dev/bulkhead/host/internal/plain"
)

// Sources is the text of config files by name, as it may be shown.
type Sources map[string][]byte

// Write prints diagnostics for people: file:line,col: summary; detail, the
// source line and a caret under the place.
func Write(w io.Writer, diags hcl.Diagnostics, sources Sources, colour bool) error {
	var b strings.Builder
	for _, d := range diags {
		text := safe.Escape(line(d))
		if colour {
			tint := "\x1b[31m"
			if d.Severity == hcl.DiagWarning {
				tint = "\x1b[33m"
			}
			text = tint + text + "\x1b[0m"
		}
		b.WriteString(text + "\n")
		if d.Subject != nil {
			excerpt(&b, sources[d.Subject.Filename], d.Subject)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

const maxExcerpt = 160 // characters of a source line

func excerpt(b *strings.Builder, src []byte, at *hcl.Range) {
	lines := bytes.Split(src, []byte("\n"))
	n := at.Start.Line
	if len(src) == 0 || n < 1 || n > len(lines) {
		return
	}
	start := at.Start.Byte - bytesBefore(lines, n)
	text := bytes.TrimRight(lines[n-1], "\r")
	if start < 0 || start > len(text) {
		return
	}
	width := 1
	if at.End.Line == n && at.End.Byte > at.Start.Byte {
		end := min(start+at.End.Byte-at.Start.Byte, len(text))
		width = max(1, utf8.RuneCount(text[start:end]))
	}
	shown := []rune(safe.Dots(strings.ReplaceAll(strings.ToValidUTF8(string(text), "�"), "\t", " ")))
	col := utf8.RuneCount(text[:start])
	if col > maxExcerpt-20 { // keep the place in sight
		cut := col - 40
		shown, col = append([]rune("…"), shown[min(cut, len(shown)):]...), col-cut+1
	}
	if len(shown) > maxExcerpt {
		shown = append(shown[:maxExcerpt], '…')
	}
	width = max(1, min(width, len(shown)-col))
	fmt.Fprintf(b, "  %4d | %s\n       | %s%s\n", n, string(shown), strings.Repeat(" ", col), strings.Repeat("^", width))
}

func bytesBefore(lines [][]byte, n int) int {
	total := 0
	for _, l := range lines[:n-1] {
		total += len(l) + 1
	}
	return total
}

// jsonDiagnostic is a diagnostic for machines.
type jsonDiagnostic struct {
	Severity string    `json:"severity"`
	Code     string    `json:"code,omitempty"`
	Summary  string    `json:"summary"`
	Detail   string    `json:"detail,omitempty"`
	File     string    `json:"file,omitempty"`
	Start    *position `json:"start,omitempty"`
	End      *position `json:"end,omitempty"`
}

type position struct {
	Line   int `json:"line"`
	Column int `json:"column"`
	Byte   int `json:"byte"`
}

// JSON is the diagnostics as a JSON array.
func JSON(diags hcl.Diagnostics) json.RawMessage {
	out := make([]jsonDiagnostic, 0, len(diags))
	for _, d := range diags {
		j := jsonDiagnostic{Severity: "error", Code: string(CodeOf(d)), Summary: d.Summary, Detail: d.Detail}
		if d.Severity == hcl.DiagWarning {
			j.Severity = "warning"
		}
		if s := d.Subject; s != nil && s.Filename != "" {
			j.File = s.Filename
			j.Start = &position{s.Start.Line, s.Start.Column, s.Start.Byte}
			j.End = &position{s.End.Line, s.End.Column, s.End.Byte}
		}
		out = append(out, j)
	}
	b, _ := json.Marshal(out) // plain structs of strings and numbers always encode
	return b
}
