package elicit

import (
	"slices"
	"strings"
	"unicode"
)

// phrases and words of credentials. Phrases count spaced or run together, words
// only whole.
var (
	phrases = []string{
		"api key", "private key", "ssh key", "secret key", "access key", "client secret", "connection string", "social security", "credit card", "card number",
		"security code", "account number", "routing number", "pin code", "one time", "auth code", "authorization code", "mfa code", "access code",
		"two factor", "2 fa", "recovery code", "backup code", "seed phrase", "recovery phrase",
	}
	secretWords = []string{
		"password", "passwords", "passwd", "pwd", "passphrase", "passcode", "secret", "secrets", "token", "credential", "credentials", "apikey", "privatekey", "creditcard",
		"ssn", "cvv", "cvc", "otp", "mfa", "pin", "bearer", "auth", "iban", "passport", "jwt", "cookie", "cookies", "2fa",
	}
	// tokenKinds make a plural of token a credential: "access tokens", but not
	// "max tokens", which models count in.
	tokenKinds = []string{"access", "refresh", "auth", "api", "bearer", "session", "id", "security"}

	decisionWords = []string{
		"yes", "no", "y", "n", "true", "false", "ok", "okay", "confirm", "confirmed", "cancel", "cancelled", "canceled", "approve", "approved", "deny", "denied",
		"reject", "rejected", "accept", "accepted", "decline", "declined", "allow", "disallow", "proceed", "continue", "abort", "stop", "skip",
	}
)

// spaced splits a name or text into lower-case words: userPassword, api_key and
// APIToken are two words each.
func spaced(s string) []string {
	var out strings.Builder
	runes := []rune(s)
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			out.WriteByte(' ')
			continue
		case i > 0 && unicode.IsUpper(r):
			before := runes[i-1]
			acronymEnds := unicode.IsUpper(before) && i+1 < len(runes) && unicode.IsLower(runes[i+1])
			if unicode.IsLower(before) || unicode.IsDigit(before) || acronymEnds {
				out.WriteByte(' ')
			}
		}
		out.WriteRune(unicode.ToLower(r))
	}
	return strings.Fields(out.String())
}

// Secret is the word or phrase of a text that speaks of credentials; empty = none.
func Secret(text string) string {
	words := spaced(text)
	for i, w := range words {
		if slices.Contains(secretWords, w) || strings.HasPrefix(w, "password") {
			return w
		}
		if w == "tokens" && i > 0 && slices.Contains(tokenKinds, words[i-1]) {
			return words[i-1] + " tokens"
		}
		for _, p := range phrases {
			if w == strings.ReplaceAll(p, " ", "") {
				return p
			}
			parts := strings.Fields(p)
			if i+len(parts) <= len(words) && slices.Equal(words[i:i+len(parts)], parts) {
				return p
			}
		}
	}
	return ""
}

// Credential says why a form must not be filled in: a field of it that looks like
// a credential, or that the operator denied. Empty = it may.
func (f *Form) Credential(denied []string) string {
	for _, field := range f.Fields {
		for _, d := range denied {
			if strings.EqualFold(strings.TrimSpace(d), field.Name) {
				return "the field " + quoted(field.Name) + " is one of denied_fields"
			}
		}
		for _, text := range []string{field.Name, field.Title, field.Description} {
			if w := Secret(text); w != "" {
				return "the field " + quoted(field.Name) + " speaks of a credential (" + w + ")"
			}
		}
		for _, o := range field.Options {
			if w := Secret(o.Title); w != "" {
				return "a choice of the field " + quoted(field.Name) + " speaks of a credential (" + w + ")"
			}
		}
	}
	// Fields with harmless names may still be meant for what the message asks for.
	free := slices.ContainsFunc(f.Fields, func(x Field) bool { return x.Kind == String })
	if w := Secret(f.Message); w != "" && free {
		return "the question speaks of a credential (" + w + ")"
	}
	return ""
}

func quoted(s string) string { return `"` + clip(s, 80) + `"` }

// Decision reports whether a field is a yes or no: a checkpoint for a person.
func (f *Field) Decision() bool {
	switch f.Kind {
	case Boolean:
		return true
	case Choice:
		return len(f.Options) > 0 && !slices.ContainsFunc(f.Options, func(o Option) bool {
			return !slices.Contains(decisionWords, strings.ToLower(strings.TrimSpace(o.Value)))
		})
	}
	return false
}
