package web

import (
	"bytes"
	"net/url"
	"regexp"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/marker"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/strikethrough"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// The converter, and one that escapes nothing, for pages made to cost: looking for
// what must be escaped takes the square of a line's length.
var markdown, unescaped = newConverter(true), newConverter(false)

func newConverter(escape bool) *converter.Converter {
	mode := converter.EscapeModeSmart
	if !escape {
		mode = converter.EscapeModeDisabled
	}
	c := converter.NewConverter(converter.WithEscapeMode(mode), converter.WithPlugins(
		base.NewBasePlugin(),
		commonmark.NewCommonmarkPlugin(),
		table.NewTablePlugin(table.WithSkipEmptyRows(true), table.WithNewlineBehavior(table.NewlineBehaviorPreserve), table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal)),
		strikethrough.NewStrikethroughPlugin(),
	))
	// The library writes < and > as entities wherever they stand. They are kept
	// from it and written as themselves, escaped only where they would mean something.
	c.Register.TextTransformer(func(_ converter.Context, text string) string { return hidden.Replace(text) }, converter.PriorityEarly)
	c.Register.TextTransformer(func(_ converter.Context, text string) string {
		if !escape {
			return bare.Replace(text)
		}
		return shown(text)
	}, converter.PriorityLate)
	c.Register.RendererFor(noteRef, converter.TagTypeInline, func(_ converter.Context, w converter.Writer, n *html.Node) converter.RenderStatus {
		_, _ = w.WriteString("[^" + attr(n, "label") + "]") // to a buffer
		return converter.RenderSuccess
	}, converter.PriorityEarly)
	c.Register.RendererFor(noteText, converter.TagTypeBlock, func(ctx converter.Context, w converter.Writer, n *html.Node) converter.RenderStatus {
		var note bytes.Buffer
		ctx.RenderChildNodes(ctx, &note, n)
		lines := strings.ReplaceAll(strings.TrimSpace(blankLines.ReplaceAllString(note.String(), "\n\n")), "\n", "\n    ")
		_, _ = w.WriteString("\n\n[^" + attr(n, "label") + "]: " + strings.ReplaceAll(lines, "    \n", "\n") + "\n\n")
		return converter.RenderSuccess
	}, converter.PriorityEarly)
	return c
}

// Stand-ins for what the library would write as entities.
const hiddenLess, hiddenMore, hiddenAnd = "\uF8F0", "\uF8F1", "\uF8F2"

var (
	hidden   = strings.NewReplacer("<", hiddenLess, ">", hiddenMore, "&", hiddenAnd, hiddenLess, "", hiddenMore, "", hiddenAnd, "")
	tagLike  = regexp.MustCompile(hiddenLess + `([A-Za-z/!?])`)
	entity   = regexp.MustCompile(hiddenAnd + `(#?[A-Za-z0-9]{1,32};)`)
	snake    = regexp.MustCompile(`([\p{L}\p{N}])` + string(marker.MarkerEscaping) + `_([\p{L}\p{N}])`)
	bare     = strings.NewReplacer(hiddenLess, "<", hiddenMore, ">", hiddenAnd, "&")
	unhidden = strings.NewReplacer(hiddenLess, "<", hiddenMore, string(marker.MarkerEscaping)+">", hiddenAnd, "&")
)

// shown brings the stand-ins back, and frees underscores inside words, which mean
// nothing there.
func shown(text string) string {
	text = tagLike.ReplaceAllString(text, `\<$1`)
	text = entity.ReplaceAllString(text, `\&$1`)
	text = snake.ReplaceAllString(text, "${1}_${2}")
	return unhidden.Replace(snake.ReplaceAllString(text, "${1}_${2}"))
}

var blankLines = regexp.MustCompile(`\n{3,}`)

// toMarkdown writes a tree as Markdown, with links made absolute. It changes the tree.
func toMarkdown(n *html.Node, at *url.URL) string {
	prepare(n, at)
	absolute(n, at)
	mergeTexts(n)
	c := markdown
	if escapeCost(n) > maxEscapeCost {
		c = unescaped
	}
	raw, err := c.ConvertNode(n)
	if err != nil {
		return textOf(n, true)
	}
	return strings.TrimSpace(blankLinesOutsideCode(string(raw)))
}

// maxEscapeCost is about a second's work.
const maxEscapeCost = 1 << 30

// escapeCost tells how many steps it takes at worst to find what must be escaped.
func escapeCost(n *html.Node) int {
	cost := 0
	for _, b := range blocksOf(n) {
		if len(b.text) > 10_000 {
			special := 0
			for i := range len(b.text) {
				switch b.text[i] {
				case '[', '-', '_', '*', '`', '~', '#', '=':
					special++
				}
			}
			cost += special * len(b.text)
		}
	}
	return cost
}

// blankLinesOutsideCode leaves one blank line where there are several, but not in
// code, where they count.
func blankLinesOutsideCode(md string) string {
	if !strings.Contains(md, "\n\n\n") {
		return md
	}
	var out, plain strings.Builder
	flush := func() {
		out.WriteString(blankLines.ReplaceAllString(plain.String(), "\n\n"))
		plain.Reset()
	}
	fence := ""
	for line := range strings.Lines(md) {
		mark := fenceOf(line)
		switch {
		case fence == "" && mark != "":
			flush()
			fence = mark
			out.WriteString(line)
		case fence != "":
			if mark != "" && strings.HasPrefix(mark, fence) && strings.TrimSpace(line) == mark {
				fence = ""
			}
			out.WriteString(line)
		default:
			plain.WriteString(line)
		}
	}
	flush()
	return out.String()
}

func fenceOf(line string) string {
	line = strings.TrimLeft(line, " >")
	n := 0
	for n < len(line) && line[n] == '`' {
		n++
	}
	if n < 3 {
		return ""
	}
	return line[:n]
}

// absolute makes the addresses of links and pictures whole and takes out those
// that lead nowhere outside a browser.
func absolute(root *html.Node, at *url.URL) {
	for n := range root.Descendants() {
		if n.Type != html.ElementNode || (n.DataAtom != atom.A && n.DataAtom != atom.Img) {
			continue
		}
		for i := range n.Attr {
			a := &n.Attr[i]
			if a.Key != "href" && a.Key != "src" {
				continue
			}
			// As browsers do; and what is empty leads nowhere else.
			a.Val = unbroken.Replace(strings.TrimSpace(a.Val))
			if a.Val == "" {
				continue
			}
			ref, err := at.Parse(a.Val)
			if err != nil || ref.Scheme == "javascript" || ref.Scheme == "data" || ref.Scheme == "blob" {
				a.Val = ""
				continue
			}
			a.Val = ref.String()
		}
		if n.DataAtom == atom.A && attr(n, "href") == "" {
			n.Data, n.DataAtom, n.Attr = "span", atom.Span, nil
		}
	}
}

var unbroken = strings.NewReplacer("\n", "", "\r", "", "\t", "")

// dropTitle removes a first heading that only repeats the title.
func dropTitle(md, title string) string {
	line, rest, _ := strings.Cut(md, "\n")
	if title != "" && strings.HasPrefix(line, "#") && strings.EqualFold(strings.TrimSpace(strings.TrimLeft(line, "#")), title) {
		return strings.TrimSpace(rest)
	}
	return md
}
