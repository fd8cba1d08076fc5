package web

import (
	"regexp"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// What an extracted article must have to stand for its page. With less the
// extraction has missed the point of the page, and all of it is converted.
const (
	articleMin   = 250  // bytes of text
	articleProse = 0.33 // share of the page's running text; real articles have 0.37 and more
	articleData  = 0.6  // share of what stands in tables, lists of definitions and listings, when that is much
)

// discussion is where a page's readers speak.
var discussion = regexp.MustCompile(`(?i)^(comments?|comment-?(list|section|area|thread|wrapper)s?|respond|disqus_thread|discussion|replies|livefyre|fb-comments)$`)

// isArticle decides whether the extracted article stands for a page, by what it
// would leave out: running text outside discussions, and data.
func isArticle(article, page *html.Node) bool {
	if len(textOf(article, true)) < articleMin {
		return false
	}
	prose, data := weigh(article)
	ofProse, ofData := weigh(page)
	return float64(prose) >= articleProse*float64(ofProse) &&
		(float64(data) >= articleData*float64(ofData) || float64(ofData-data) < 0.25*float64(prose))
}

// weigh counts the bytes of running text and of data below root.
func weigh(root *html.Node) (running, data int) {
	known := map[*html.Node]bool{root: false}
	for _, b := range blocksOf(root) {
		switch {
		case inDiscussion(b.nodes[0], known):
		case b.in(atom.Pre, atom.Dl), b.in(atom.Table) && !b.isProse():
			data += len(b.text) - b.links
		case b.isProse():
			running += len(b.text) - b.links
		}
	}
	return running, data
}

// inDiscussion looks at a node and what it stands in, up to what is known.
func inDiscussion(n *html.Node, known map[*html.Node]bool) bool {
	if n == nil {
		return false
	}
	is, ok := known[n]
	if !ok {
		is = inDiscussion(n.Parent, known) || discussion.MatchString(attr(n, "id")) || anyClass(attr(n, "class"), discussion)
		known[n] = is
	}
	return is
}
