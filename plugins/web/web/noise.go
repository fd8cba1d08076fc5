package web

import (
	"math"
	"regexp"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// dropped are elements that never hold the text of a page.
var dropped = map[atom.Atom]bool{
	atom.Script: true, atom.Style: true, atom.Noscript: true, atom.Svg: true, atom.Iframe: true,
	atom.Template: true, atom.Canvas: true, atom.Object: true, atom.Embed: true, atom.Audio: true,
	atom.Video: true, atom.Link: true, atom.Meta: true, atom.Dialog: true, atom.Head: true,
	atom.Nav: true, atom.Footer: true, atom.Aside: true, atom.Button: true,
	atom.Select: true, atom.Input: true, atom.Textarea: true,
}

var droppedRoles = map[string]bool{
	"navigation": true, "banner": true, "contentinfo": true, "complementary": true, "search": true,
	"dialog": true, "alertdialog": true, "menu": true, "menubar": true,
}

// consent recognises cookie banners by the ids and classes that consent managers
// and hand-made banners use.
var consent = regexp.MustCompile(`(?i)(^|[\s_-])(onetrust|cybotcookiebot|didomi|usercentrics|uc-banner|sp_message_container|qc-cmp2?|truste|trustarc|cookieyes|cky-|klaro|osano-cm|iubenda-cs|borlabs-cookie|cmplz|fc-consent|termly|cookie-?first|cookie[\s_-]?(banner|consent|notice|bar|law|wall|popup|overlay|message|modal|policy-banner)|gdpr|consent[\s_-]?(banner|manager|modal|popup|overlay|wall|layer))`)

// chrome recognises what surrounds the text by class or id where no element says so.
var chrome = regexp.MustCompile(`(?i)^(side-?bar|site-?(header|footer|nav)|page-?(header|footer)|nav-?bar|navigation|breadcrumbs?|menu|footer|share(-buttons)?|social(-links|-share)?|related(-posts|-articles)?|newsletter(-signup)?|advert(isement)?s?|ads?|skip-link|comments?-form|cookie-.*)$`)

var hiddenStyle = regexp.MustCompile(`(?i)(display\s*:\s*none|visibility\s*:\s*hidden)`)

// stripNoise removes what is not text of the page from the tree. Wrappers it does
// not know stay, with all they hold.
func stripNoise(root *html.Node) {
	for c := root.FirstChild; c != nil; {
		next := c.NextSibling
		if isNoise(c) {
			root.RemoveChild(c)
		} else {
			stripNoise(c)
		}
		c = next
	}
}

// pageForm is the text, in characters, from which a form is taken for the wrapper
// of a whole page, as some frameworks make it, and kept.
const pageForm = 500

func isNoise(n *html.Node) bool {
	switch n.Type {
	case html.CommentNode:
		return true
	case html.ElementNode:
	default:
		return false
	}
	if dropped[n.DataAtom] {
		return true
	}
	if n.DataAtom == atom.Html || n.DataAtom == atom.Body || n.DataAtom == atom.Main || n.DataAtom == atom.Article {
		return false
	}
	if n.DataAtom == atom.Form && len(textOf(n, false)) < pageForm {
		return true
	}
	if n.DataAtom == atom.Header && !within(n, atom.Article, atom.Main) {
		return true
	}
	if n.DataAtom == atom.Img && (strings.HasPrefix(attr(n, "src"), "data:") || attr(n, "src") == "") {
		return true
	}
	id, class := attr(n, "id"), attr(n, "class")
	return has(n, "hidden") || attr(n, "aria-hidden") == "true" || droppedRoles[strings.ToLower(attr(n, "role"))] ||
		hiddenStyle.MatchString(attr(n, "style")) || isConsent(n) || chrome.MatchString(id) || anyClass(class, chrome)
}

func anyClass(classes string, re *regexp.Regexp) bool {
	for _, c := range strings.Fields(classes) {
		if re.MatchString(c) {
			return true
		}
	}
	return false
}

func isConsent(n *html.Node) bool {
	if n.Type != html.ElementNode || n.DataAtom == atom.Html || n.DataAtom == atom.Body {
		return false
	}
	return consent.MatchString(attr(n, "id")) || consent.MatchString(attr(n, "class"))
}

func within(n *html.Node, atoms ...atom.Atom) bool {
	for p := n.Parent; p != nil; p = p.Parent {
		for _, a := range atoms {
			if p.DataAtom == a {
				return true
			}
		}
	}
	return false
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func has(n *html.Node, name string) bool {
	for _, a := range n.Attr {
		if a.Key == name {
			return true
		}
	}
	return false
}

// find gives the first element below root for which want holds, in document order.
func find(root *html.Node, want func(*html.Node) bool) *html.Node {
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && want(n) {
			return n
		}
	}
	return nil
}

// findNear is find that gives up after so many nodes.
func findNear(root *html.Node, most int, want func(*html.Node) bool) *html.Node {
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && want(n) {
			return n
		}
		if most--; most <= 0 {
			break
		}
	}
	return nil
}

// textOf joins the text below n, white space folded, links left out when asked.
func textOf(n *html.Node, links bool) string { return folded(n, links, math.MaxInt) }

// textUpTo is textOf that stops at about so many bytes, or after so many nodes: for
// what looks at the same nodes again and again.
func textUpTo(n *html.Node, limit int) string { return folded(n, true, limit) }

func folded(n *html.Node, links bool, limit int) string {
	var b strings.Builder
	most, visited := math.MaxInt, 0
	if limit < math.MaxInt/2 {
		most = 2 * limit
	}
	var walk func(*html.Node) bool
	walk = func(n *html.Node) bool {
		if visited++; b.Len() > most || visited > most {
			return false
		}
		if n.Type == html.TextNode {
			b.WriteString(strings.TrimSpace(n.Data))
			b.WriteByte(' ')
		}
		if n.Type == html.ElementNode && (n.DataAtom == atom.Script || n.DataAtom == atom.Style || n.DataAtom == atom.Noscript || n.DataAtom == atom.Template || !links && n.DataAtom == atom.A) {
			return true
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			if !walk(c) {
				return false
			}
		}
		return true
	}
	walk(n)
	return strings.Join(strings.Fields(b.String()), " ")
}
