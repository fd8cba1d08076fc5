package elicit

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
)

// redacted stands for what a model must not see.
const redacted = "[redacted]"

// scrubs are shapes of secrets and what is put in their place, in order.
var scrubs = []struct {
	shape *regexp.Regexp
	with  string
}{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`), redacted},
	{regexp.MustCompile(`(?i)\b(pass ?word|passwd|pwd|passcode|pass ?phrase|client[ _-]?secret|secret|(?:api|access|secret|private)[ _-]?key|(?:access|refresh|auth)[ _-]?token|token|pin)(\s*(?:[:=]|\bis\b)\s*)("[^"]*"|'[^']*'|\S+)`), "${1}${2}" + redacted},
	{regexp.MustCompile(`(?i)\b(Bearer|Basic|Token)(\s+)[A-Za-z0-9._~+/=-]{12,}`), "${1}${2}" + redacted},
	{regexp.MustCompile(`\b(?:sk-[A-Za-z0-9_-]{16,}|[sr]k_live_?[A-Za-z0-9]{8,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|xox[a-z]-[A-Za-z0-9-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{35}|glpat-[A-Za-z0-9_-]{20,}|npm_[A-Za-z0-9]{30,})`), redacted},
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`), redacted},
	{regexp.MustCompile(`\b\d(?:[ -]?\d){12,18}\b`), redacted},
	{regexp.MustCompile(`\b\d{3}-\d{2}-\d{4}\b`), redacted},
}

// longRun is a run that may be a key: what it must also hold is looked at apart.
var longRun = regexp.MustCompile(`[A-Za-z0-9+/_-]{32,}`)

// Scrub takes out of a text what has the shape of a secret. It takes out too much
// rather than too little.
func Scrub(text string) string {
	for _, s := range scrubs {
		text = s.shape.ReplaceAllString(text, s.with)
	}
	return longRun.ReplaceAllStringFunc(text, func(run string) string {
		if strings.ContainsAny(run, "0123456789") && strings.ContainsFunc(run, func(r rune) bool { return r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' }) {
			return redacted
		}
		return run
	})
}

// Redact is arguments as a model may see them: no values under names that speak of
// credentials, and no texts of such shape. What is no JSON is withheld.
func Redact(args json.RawMessage) string {
	dec := json.NewDecoder(bytes.NewReader(args))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return "(withheld)"
	}
	if m, ok := v.(map[string]any); ok && len(m) == 0 {
		return "(none)"
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if enc.Encode(redact(v)) != nil {
		return "(withheld)"
	}
	return strings.TrimSpace(out.String())
}

func redact(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k, inner := range x {
			if Secret(k) != "" {
				x[k] = redacted
				continue
			}
			x[k] = redact(inner)
		}
	case []any:
		for i := range x {
			x[i] = redact(x[i])
		}
	case string:
		return Scrub(x)
	}
	return v
}
