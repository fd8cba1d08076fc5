package config

import (
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

// Code is the reference of a diagnostic's fault, carried as its Extra.
type Code fault.Ref

// CodeOf is the BH code of a diagnostic, or empty.
func CodeOf(d *hcl.Diagnostic) fault.Ref {
	code, _ := d.Extra.(Code)
	return fault.Ref(code)
}

const (
	maxFaults    = 20      // of a config in one error
	maxFaultText = 4 << 10 // bytes
)

// Err is the errors among diags as one fault, or nil: each with its place, on a line
// of its own, as many as can be read at once.
func Err(diags hcl.Diagnostics) error {
	var ref fault.Ref
	var lines []string
	size, more := 0, 0
	for _, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		code := CodeOf(d)
		if code == "" {
			code = fault.ConfigValue
		}
		if ref == "" {
			ref = code
		}
		text := line(d)
		if code == ref {
			text = strings.TrimSuffix(text, " ("+string(ref)+")") // the fault has its code beside the text
		}
		if len(lines) > 0 && (len(lines) == maxFaults || size+len(text) > maxFaultText) {
			more++
			continue
		}
		lines = append(lines, text)
		size += len(text)
	}
	if ref == "" {
		return nil
	}
	text := strings.Join(lines, "\n")
	if more > 0 {
		text += fmt.Sprintf("\n(and %d more)", more)
	}
	return fault.New(ref, "%s", text)
}

func problem(ref fault.Ref, at hcl.Range, summary, detail string) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: at.Ptr(), Extra: Code(ref)}
}

// own gives a diagnostic of the HCL library a code and takes from it what could
// render values: the expression and its context.
func own(ref fault.Ref, d *hcl.Diagnostic) *hcl.Diagnostic {
	out := &hcl.Diagnostic{
		Severity: d.Severity, Summary: d.Summary, Detail: strings.TrimSuffix(d.Detail, "."),
		Subject: d.Subject, Context: d.Context, Extra: Code(ref),
	}
	if call, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](d); ok && call.FunctionCallError() != nil {
		var known *fault.Error
		if errors.As(call.FunctionCallError(), &known) {
			out.Extra = Code(known.Ref)
			out.Summary, out.Detail, _ = strings.Cut(known.Message, "; ")
		}
	}
	return out
}

// sorted puts diagnostics into the order of the file, for maps have none.
func sorted(diags hcl.Diagnostics) hcl.Diagnostics {
	sort.SliceStable(diags, func(i, j int) bool {
		a, b := diags[i].Subject, diags[j].Subject
		if a == nil || b == nil {
			return a == nil && b != nil
		}
		if a.Filename != b.Filename {
			return a.Filename < b.Filename
		}
		return a.Start.Byte < b.Start.Byte
	})
	return diags
}

// nearest is the known word with the smallest edit distance to the one given,
// or empty when none is near.
func nearest(given string, known []string) string {
	best, distance := "", len(given)/2+1
	if distance > 4 {
		distance = 4
	}
	for _, k := range known {
		if d := levenshtein.Distance(strings.ToLower(given), strings.ToLower(k), nil); d < distance {
			best, distance = k, d
		}
	}
	return best
}

func suggest(given string, known []string, listUpTo int) string {
	if near := nearest(given, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(known) == 0 {
		return "nothing may stand here"
	}
	if len(known) <= listUpTo {
		sort.Strings(known)
		return "known here: " + joinWords(known)
	}
	return ""
}

func joinWords(w []string) string { return strings.Join(w, ", ") }

func place(r *hcl.Range) string {
	return fmt.Sprintf("%s:%d,%d", r.Filename, r.Start.Line, r.Start.Column)
}

// line is a diagnostic as file:line,col: summary; detail (code).
func line(d *hcl.Diagnostic) string {
	var b strings.Builder
	if d.Subject != nil && d.Subject.Filename != "" {
		b.WriteString(place(d.Subject) + ": ")
	}
	if d.Severity == hcl.DiagWarning {
		b.WriteString("warning: ")
	}
	b.WriteString(d.Summary)
	if d.Detail != "" {
		b.WriteString("; " + d.Detail)
	}
	if code := CodeOf(d); code != "" {
		b.WriteString(" (" + string(code) + ")")
	}
	return strings.NewReplacer("\r", " ", "\n", " ").Replace(b.String())
}
