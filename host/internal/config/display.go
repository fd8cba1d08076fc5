package config

import (
	"bytes"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Diagnostics show source lines, and a source line may hold a secret that was
// written right into the file. What is shown is therefore a copy in which such
// literals are blanked out, rune by rune, so that carets still fit.

var secretKey = regexp.MustCompile(`(?i)(token|secret|passw|credential|api_?key|authorization|private_?key|cookie)`)

// display makes the copy that may be shown, judging by the names of keys, and
// refuses what is nested too deeply to parse.
func display(path string, src []byte) ([]byte, *hcl.Diagnostic) {
	tokens, _ := hclsyntax.LexConfig(src, path, hcl.InitialPos) // lexing never fails, parsing will tell
	out := slices.Clone(src)
	secret, depth := false, 0
	var key []byte
	for i, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenIdent, hclsyntax.TokenQuotedLit, hclsyntax.TokenStringLit:
			if secret && t.Type != hclsyntax.TokenIdent && !argument(tokens, i) {
				blank(out, t.Range)
			}
			key = t.Bytes
		case hclsyntax.TokenEqual, hclsyntax.TokenColon:
			if !secret {
				secret, depth = secretKey.Match(key), 0
			}
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenOHeredoc, hclsyntax.TokenTemplateInterp:
			depth++
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCHeredoc, hclsyntax.TokenTemplateSeqEnd:
			if depth--; depth < 0 {
				secret = false
			}
		case hclsyntax.TokenNewline, hclsyntax.TokenComma:
			if depth <= 0 {
				secret = false
			}
		}
	}
	return out, tooDeep(path, tokens)
}

// argument tells whether the literal is the first argument of a function: the
// name of a variable or secret, which may be shown.
func argument(tokens hclsyntax.Tokens, i int) bool {
	return i >= 3 && tokens[i-1].Type == hclsyntax.TokenOQuote &&
		tokens[i-2].Type == hclsyntax.TokenOParen && tokens[i-3].Type == hclsyntax.TokenIdent
}

func blank(out []byte, at hcl.Range) {
	if at.Start.Byte < 0 || at.End.Byte > len(out) || at.Start.Byte >= at.End.Byte {
		return
	}
	part := out[at.Start.Byte:at.End.Byte]
	for i := 0; i < len(part); {
		r, n := utf8.DecodeRune(part[i:])
		if r != '\n' && r != '\r' {
			copy(part[i:i+n], bytes.Repeat([]byte{'*'}, n))
		}
		i += n
	}
}

// mask blanks the literals of expressions that a schema calls sensitive.
func (c *Config) mask(ranges []hcl.Range) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range ranges {
		src, ok := c.sources[r.Filename]
		if !ok || r.End.Byte > len(src) {
			continue
		}
		src = slices.Clone(src)
		tokens, _ := hclsyntax.LexExpression(src[r.Start.Byte:r.End.Byte], r.Filename, r.Start)
		for i, t := range tokens {
			lit := t.Type == hclsyntax.TokenQuotedLit || t.Type == hclsyntax.TokenStringLit || t.Type == hclsyntax.TokenNumberLit
			if lit && !argument(tokens, i) {
				blank(src, t.Range)
			}
		}
		c.sources[r.Filename] = src
	}
}
