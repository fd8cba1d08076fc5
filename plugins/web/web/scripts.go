package web

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const (
	maxScript = 40 // characters of a text that is taken for an exponent or an index
	maxBack   = 50 // steps to find what it stands behind
)

// Characters that there are raised and lowered, too.
var (
	raised  = pairs("0⁰1¹2²3³4⁴5⁵6⁶7⁷8⁸9⁹+⁺-⁻−⁻=⁼(⁽)⁾nⁿiⁱ")
	lowered = pairs("0₀1₁2₂3₃4₄5₅6₆7₇8₈9₉+₊-₋−₋=₌(₍)₎")
)

func pairs(s string) map[rune]rune {
	m, r := map[rune]rune{}, []rune(s)
	for i := 0; i+1 < len(r); i += 2 {
		m[r[i]] = r[i+1]
	}
	return m
}

// ordinals are raised letters that mean the same where they are not.
var ordinals = map[string]bool{"st": true, "nd": true, "rd": true, "th": true, "e": true, "er": true, "re": true, "ère": true, "ème": true, "eme": true, "es": true,
	"o": true, "a": true, "os": true, "as": true, "º": true, "ª": true, "tm": true, "sm": true, "™": true, "®": true, "©": true, "*": true, "†": true, "‡": true}

// script writes an exponent or an index so that it stays one in plain text: 10⁶
// and H₂O, and x^y and x_(i,j) where characters for it are missing.
func script(n *html.Node) {
	mark, chars := "^", raised
	if n.DataAtom == atom.Sub {
		mark, chars = "_", lowered
	}
	said := ""
	for d := range n.Descendants() {
		if d.Type == html.TextNode && len(said) <= maxScript*utf8.UTFMax {
			said += d.Data
		}
	}
	said = strings.Join(strings.Fields(said), " ")
	if said == "" || utf8.RuneCountInString(said) > maxScript || !behindText(n) || (mark == "^" && ordinals[strings.ToLower(said)]) {
		return
	}
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && !plainInline[d.DataAtom] {
			return // a link, a picture, a note
		}
	}
	for c := n.FirstChild; c != nil; c = n.FirstChild {
		n.RemoveChild(c)
	}
	n.Type, n.Data, n.DataAtom, n.Attr = html.TextNode, scripted(said, mark, chars), 0, nil
}

var plainInline = map[atom.Atom]bool{atom.Span: true, atom.I: true, atom.Em: true, atom.B: true, atom.Strong: true, atom.Var: true, atom.Small: true}

func scripted(said, mark string, chars map[rune]rune) string {
	all, word := true, true
	for _, r := range said {
		all = all && chars[r] != 0
		word = word && (unicode.IsLetter(r) || unicode.IsDigit(r))
	}
	switch {
	case all:
		return strings.Map(func(r rune) rune { return chars[r] }, said)
	case word:
		return mark + said
	}
	return mark + "(" + said + ")"
}

// behindText says whether n follows a letter, a number or a closing bracket
// directly; what stands alone is no exponent.
func behindText(n *html.Node) bool {
	for range maxBack {
		for n.PrevSibling == nil {
			if n = n.Parent; n == nil || n.Type != html.ElementNode || !(plainInline[n.DataAtom] || n.DataAtom == atom.A || n.DataAtom == atom.Code) {
				return false
			}
		}
		n = n.PrevSibling
		for n.LastChild != nil {
			n = n.LastChild
		}
		if n.Type == html.TextNode && n.Data != "" {
			r, _ := utf8.DecodeLastRuneInString(n.Data)
			return unicode.IsLetter(r) || unicode.IsNumber(r) || strings.ContainsRune(")]}′", r)
		}
	}
	return false
}
