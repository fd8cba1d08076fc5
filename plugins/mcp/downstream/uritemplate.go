package downstream

import (
	"regexp"
	"strings"
)

// Matcher says whether URIs belong to a template of RFC 6570, as far as telling
// is needed: the server is the one that expands it.
func Matcher(template string) func(uri string) bool {
	var out strings.Builder
	out.WriteString("^")
	for rest := template; rest != ""; {
		open := strings.IndexByte(rest, '{')
		end := strings.IndexByte(rest, '}')
		if open < 0 || end < open+1 {
			out.WriteString(regexp.QuoteMeta(rest))
			break
		}
		out.WriteString(regexp.QuoteMeta(rest[:open]))
		out.WriteString(expression(rest[open+1 : end]))
		rest = rest[end+1:]
	}
	out.WriteString("$")
	re, err := regexp.Compile(out.String())
	if err != nil {
		return func(uri string) bool { return uri == template }
	}
	return func(uri string) bool { return len(uri) <= 8192 && re.MatchString(uri) }
}

// expression is the pattern for what stands in one pair of braces.
func expression(body string) string {
	if body == "" {
		return `\{\}`
	}
	switch body[0] {
	case '+':
		return `.+`
	case '#':
		return `(?:#.*)?`
	case '/':
		return `(?:/[^?#]*)?`
	case '?':
		return `(?:\?[^#]*)?`
	case '&':
		return `(?:&[^#]*)?`
	case '.':
		return `(?:\.[^/?#]*)?`
	case ';':
		return `(?:;[^/?#]*)?`
	}
	return `[^/?#]+`
}
