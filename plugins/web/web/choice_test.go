package web

import (
	"fmt"
	"strings"
	"testing"
)

// Pages that are no articles keep what they are made of.
func TestChoice(t *testing.T) {
	var cards, rows, entries, results, api strings.Builder
	for i := range 24 {
		fmt.Fprintf(&cards, `<div class="card"><h3><a href="/p/%d">Sail number %d</a></h3><p>A sail for ships of %d feet, sewn of two layers, with reef points in three rows and a bolt rope all the way around its edges, delivered within %d days.</p><span class="price">%d.00 €</span></div>`, i, i, i+10, i+2, i*100)
		fmt.Fprintf(&rows, `<tr><th>Property %d</th><td>value %d</td></tr>`, i, i)
		fmt.Fprintf(&entries, `<li><a href="/n/%d">Headline number %d of the day</a> <time>%d:00</time></li>`, i, i, i)
		fmt.Fprintf(&results, `<div class="result"><a href="/r/%d"><h3>Result %d</h3></a><p>Where the engine found the words that were asked for, %d of them, with some of the text around each so that a reader can tell whether it is worth opening.</p></div>`, i, i, i)
		fmt.Fprintf(&api, `<h3 id="f%d">func Reef%d</h3><pre><code class="language-go">func Reef%d(n int) error</code></pre><p>Reef%d takes in the sail.</p>`, i, i, i, i)
	}
	all := func(format string, n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf(format, i))
		}
		return out
	}
	for name, c := range map[string]struct {
		body string
		want []string
	}{
		"listing of a shop": {`<main><h1>Sails</h1><div class="grid">` + cards.String() + `</div></main>`, append(all("Sail number %d]", 24), "2300.00 €")},
		"product": {`<main><h1>Sail 7</h1><div class="description"><p>` + strings.Repeat(sentences, 4) + `</p></div><div class="buy"><span class="price">700.00 €</span></div>
			<section class="specs"><h2>Specification</h2><table>` + rows.String() + `</table></section></main>`, append(all("Property %d |", 24), "value 23", "700.00 €", "nobody on deck")},
		"front page":     {`<main><h1>News</h1><ul>` + entries.String() + `</ul></main>`, all("Headline number %d of", 24)},
		"search results": {`<main>` + results.String() + `</main>`, all("Result %d", 24)},
		"reference":      {`<main><h1>package reef</h1><p>` + sentences + `</p>` + api.String() + `</main>`, append(all("func Reef%d(n int) error", 24), "```go")},
		"forum": {`<main>` + strings.Repeat(`<div class="post"><div class="author">Ann</div><div class="text"><p>`+sentences+`</p></div></div>`, 3) +
			`<div class="post"><div class="author">Bob</div><div class="text"><p>Head to wind.</p></div></div></main>`, []string{"nobody on deck"}},
		"table alone": {`<h1>Tides</h1><table>` + rows.String() + `</table>`, all("Property %d |", 24)},
		"settings":    {`<main><h1>Options</h1><p>` + sentences + sentences + `</p><dl>` + strings.Repeat(`<dt>reef</dt><dd>How many reefs are taken in when the wind is above its limit.</dd>`, 9) + `</dl></main>`, []string{"- **reef**: How many", "nobody on deck"}},
	} {
		page := `<html><head><title>T</title></head><body><header><nav><a href="/">Home</a></nav></header>` + c.body + `<footer>Imprint</footer></body></html>`
		doc := convertHTML(page, here)
		for _, want := range c.want {
			if !strings.Contains(doc.markdown, want) {
				t.Errorf("%s: %q is missing in\n%s", name, want, doc.markdown)
				break
			}
		}
		if strings.Contains(doc.markdown, "Imprint") || doc.status != "" {
			t.Errorf("%s: status %q, or its footer is there", name, doc.status)
		}
	}
	// An article with twice as much by its readers is still the article.
	discussed := `<html><body><article><h1>At sea</h1>` + strings.Repeat("<p>"+sentences+"</p>", 5) + `</article><div id="comments">` + strings.Repeat(`<div class="comment"><p>I was on deck and saw it, and I can tell that nobody there believed a word of it, whatever is written here by others.</p></div>`, 30) + `</div></body></html>`
	if got := convertHTML(discussed, here).markdown; !strings.Contains(got, "nobody on deck") || strings.Contains(got, "I was on deck") {
		t.Errorf("the discussion came through:\n%.600s", got)
	}
}

// Who wrote a page and when stands under its title.
func TestAbout(t *testing.T) {
	body := "<body><article>" + strings.Repeat("<p>"+sentences+"</p>", 5) + "</article></body>"
	for head, want := range map[string]string{
		`<meta name="author" content="By Ann Other"><meta property="article:published_time" content="2019-11-18T08:00:00Z">`:                                                                                           "By Ann Other, 2019-11-18",
		`<script type="application/ld+json">{"@context":"https://schema.org","@type":"NewsArticle","headline":"At sea","author":{"@type":"Person","name":"Bob"},"datePublished":"2020-02-03T10:00:00+01:00"}</script>`: "By Bob, 2020-02-03",
		`<meta name="author" content="https://facebook.com/ann"><meta property="article:published_time" content="soon">`:                                                                                               "",
		``: "",
	} {
		doc := convertHTML("<html><head><title>At sea</title>"+head+"</head>"+body+"</html>", here)
		if doc.about != want {
			t.Errorf("%s: %q", head, doc.about)
		}
		if text := compose(here, "http", nil, doc).text(); want != "" && !strings.Contains(text, "# At sea\n\n"+want+"\n\nThe ship") {
			t.Errorf("%.200s", text)
		}
	}
}
