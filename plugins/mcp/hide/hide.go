package hide

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// Shortest is the fewest bytes a value has to have to be looked for. Shorter ones are
// words that stand in many texts.
const Shortest = 8

// In is what a secret is replaced by.
const In = "[hidden]"

// Values are secrets to look for; nil hides nothing.
type Values struct{ replace *strings.Replacer }

// New makes Values of secrets: each is looked for as it is, in its parts (the token
// behind "Bearer"), and as base64, URLs and JSON have it.
func New(secrets ...string) *Values {
	seen := map[string]bool{}
	var forms []string
	add := func(s string) {
		if len(s) >= Shortest && !seen[s] {
			seen[s] = true
			forms = append(forms, s)
		}
	}
	for _, secret := range secrets {
		for _, part := range parts(secret) {
			for _, form := range written(part) {
				add(form)
			}
		}
	}
	if len(forms) == 0 {
		return nil
	}
	// The longest first: one may be part of another.
	slices.SortStableFunc(forms, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, f := range forms {
		pairs = append(pairs, f, In)
	}
	return &Values{strings.NewReplacer(pairs...)}
}

// parts are a value and what it is made of.
func parts(secret string) []string {
	secret = strings.TrimSpace(secret)
	out := []string{secret}
	for _, word := range strings.Fields(secret) {
		out = append(out, word)
		// Basic: the name and the password.
		if raw, err := base64.StdEncoding.DecodeString(word); err == nil && strings.HasPrefix(strings.ToLower(secret), "basic ") {
			_, password, _ := strings.Cut(string(raw), ":")
			out = append(out, string(raw), password)
		}
	}
	return slices.DeleteFunc(out, func(s string) bool { return len(s) < Shortest })
}

// written are the ways a value may be written.
func written(s string) []string {
	out := []string{s, url.QueryEscape(s), url.PathEscape(s)}
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		out = append(out, enc.EncodeToString([]byte(s)))
	}
	if raw, err := json.Marshal(s); err == nil {
		out = append(out, string(raw[1:len(raw)-1]))
	}
	return out
}

// Text is a text without the secrets.
func (v *Values) Text(text string) string {
	if v == nil || len(text) < Shortest {
		return text
	}
	return v.replace.Replace(text)
}

// Error is an error whose text has no secrets; it unwraps to err.
func (v *Values) Error(err error) error {
	if err == nil || v == nil {
		return err
	}
	if text := err.Error(); v.Text(text) != text {
		return &hidden{v.Text(text), err}
	}
	return err
}

type hidden struct {
	text string
	err  error
}

func (h *hidden) Error() string { return h.text }
func (h *hidden) Unwrap() error { return h.err }
