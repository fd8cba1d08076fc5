package web

import (
	"net/url"
	"strings"
	"testing"
)

var here = &url.URL{Scheme: "https", Host: "example.com", Path: "/docs/page"}

// Each of these goes through the conversion of a fragment, which is all content.
func TestFragments(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"table":            {`<table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>x<br>y</td></tr></table>`, "| A | B |\n|---|---|\n| 1 | x  <br />y |"},
		"absolute link":    {`<p><a href="../log?x=1#y">log</a></p>`, "[log](https://example.com/log?x=1#y)"},
		"link of scripts":  {`<p><a href="javascript:void(0)">press</a></p>`, "press"},
		"picture":          {`<p><img src="/a.png" alt="A ship"></p>`, "![A ship](https://example.com/a.png)"},
		"late picture":     {`<p><img src="data:image/gif;base64,R0" data-src="/b.png" alt="B"></p>`, "![B](https://example.com/b.png)"},
		"picture of sizes": {`<picture><source srcset="/c-2x.png 2x, /c.png 1x"><img alt="C"></picture>`, "![C](https://example.com/c-2x.png)"},
		"code":             {"<pre><code class=\"language-go\">a := 1\n\n\n\nb &lt; c &amp;&amp; d_e_f</code></pre>", "```go\na := 1\n\n\n\nb < c && d_e_f\n```"},
		"code of GitHub":   {`<div class="highlight highlight-source-js"><pre>let x</pre></div>`, "```js\nlet x\n```"},
		"code of Sphinx":   {`<div class="highlight-python notranslate"><div class="highlight"><pre><span></span>import os</pre></div></div>`, "```python\nimport os\n```"},
		"code of hljs":     {`<pre><code class="hljs rust">fn main() {}</code></pre>`, "```rust\nfn main() {}\n```"},
		"code by data":     {`<pre data-lang="toml">a = 1</pre>`, "```toml\na = 1\n```"},
		"numbered code":    {`<table class="highlighttable"><tr><td class="linenos"><pre>1 2</pre></td><td class="code"><pre>x = 1</pre></td></tr></table>`, "```\nx = 1\n```"},
		"copy button":      {`<pre><button>Copy</button><code>ls</code></pre>`, "```\nls\n```"},
		"definitions":      {`<dl><dt>Bow</dt><dt>Prow</dt><dd>the front</dd><div><dt>Stern</dt><dd>the back</dd><dd>not the front</dd></div></dl>`, "- **Bow**, **Prow**: the front\n- **Stern**: the back  \n  not the front"},
		"details":          {`<details><summary>More</summary><p>Hidden until opened.</p></details>`, "**More**\n\nHidden until opened."},
		"footnotes":        {`<p>Text<sup id="r1"><a href="#n1">1</a></sup> goes on.</p><ol><li id="n1">The <em>note</em>. <a href="#r1">↩</a></li></ol>`, "Text[^1] goes on.\n\n[^1]: The *note*."},
		"notes of a wiki":  {`<p>Fact.<sup class="reference"><a href="#cite_note-a-4">[4]</a></sup></p><ol><li id="cite_note-a-4"><span class="mw-cite-backlink"><a href="#cite_ref-4">^</a></span> <span>A book</span></li></ol>`, "Fact.[^4]\n\n[^4]: A book"},
		"exponents":        {`<p>10<sup>6</sup> and 10<sup>−3</sup>, m<sup>2</sup>, <i>x</i><sup>n</sup>, e<sup>x<sup>2</sup></sup>, a<sup>b+1</sup>, 2<sup><i>k</i></sup></p>`, "10⁶ and 10⁻³, m², *x*ⁿ, e^(x²), a^(b+1), 2^k"},
		"indexes":          {`<p>H<sub>2</sub>O, x<sub>i</sub>, a<sub>i,j</sub>, f<sub>12</sub>(x), SO<sub>4</sub><sup>2-</sup></p>`, "H₂O, x_i, a\\_(i,j), f₁₂(x), SO₄²⁻"},
		"raised words":     {`<p>The 1<sup>st</sup>, 2<sup>ème</sup>, Name<sup>TM</sup>, alone <sup>2</sup> and <sup>long words of a remark that nobody takes for an exponent</sup></p>`, "The 1st, 2ème, NameTM, alone 2 and long words of a remark that nobody takes for an exponent"},
		"no footnote":      {`<p>See <sup><a href="#nowhere">1</a></sup></p>`, "See [1](https://example.com/docs/page#nowhere)"},
		"less and more":    {`<p>a &lt; b &gt; c, &lt;div&gt; and &amp;lt;</p>`, `a < b > c, \<div> and \&lt;`},
		"looks like quote": {`<p>&gt; not a quote</p>`, `\> not a quote`},
		"snake case":       {`<p>call read_all_of_it or __init__</p>`, `call read_all_of_it or \_\_init\__`},
		"nested lists":     {`<ol><li>one<ul><li>in</li></ul></li><li>two</li></ol>`, "1. one\n   \n   - in\n2. two"},
		"nested table":     {`<table><tr><td><table><tr><th>k</th></tr><tr><td>v</td></tr></table></td></tr></table>`, "| k |\n|---|\n| v |"},
		"table in a cell":  {`<table><tr><th>Name</th><th>Data</th></tr><tr><td>A</td><td><table><tr><th>k</th><th>w</th></tr><tr><td>v</td><td><ul><li>1</li><li>2</li></ul></td></tr></table></td></tr><tr><td>B</td><td>plain</td></tr></table>`, "| Name | Data |\n|---|---|\n| A | k · w  <br />v · • 1  <br />• 2 |\n| B | plain |"},
		"layout by cells":  {`<table><tr><td>x</td><td>y</td><td><table><tr><td>1</td><td>2</td></tr></table></td></tr></table>`, "x y\n\n|  |  |\n|---|---|\n| 1 | 2 |"},
		"spans":            {`<table><tr><th rowspan="2">Region</th><th colspan="2">Sales</th></tr><tr><td>5</td><td>6</td></tr></table>`, "| Region | Sales |  |\n|---|---|---|\n|  | 5 | 6 |"},
		"list in a table":  {"<table><tr><th>k</th><th>v</th></tr><tr><td>1</td><td><ul>\n<li>a</li>\n<li>b</li>\n</ul></td></tr></table>", "| k | v |\n|---|---|\n| 1 | • a  <br />• b |"},
		"code in a table":  {"<table><tr><td><pre>a\n\nb</pre></td><td>c</td></tr></table>", "```\na\n\nb\n```\n\nc"},
		"broken address":   {"<p><a href=\"/a\n\t/b\">x</a><img src=\"\"></p>", "[x](https://example.com/a/b)"},
		"struck":           {`<p><del>old</del> new</p>`, "~~old~~ new"},
	} {
		if got := fragment(c.in, here); got != c.want {
			t.Errorf("%s:\n%s\nwanted:\n%s", name, got, c.want)
		}
	}
}

const sentences = "The ship left the harbour at dawn, and the wind was fair; nobody on deck, however, believed that it would last until the evening. "

// An article loses what surrounds it and keeps what belongs to it.
func TestTrim(t *testing.T) {
	page := `<html><head><title>A day at sea</title></head><body><div class="content"><article>
<ul class="crumbs"><li><a href="/">Home</a></li><li><a href="/n">News</a></li></ul><h1>A day at sea</h1><p>By Ann Other</p><p>19 November, 10.40</p>
<h2>A lead is kept.</h2><p>` + sentences + `</p><figure><img src="/s.jpg" alt="ship"><figcaption>The ship at dawn. Photo: A. Other</figcaption></figure>
<p>` + sentences + `</p><p>READ MORE: <a href="/o">Another day at sea</a></p><p><a href="/u">SAILORS OF THE WORLD TELL THEIR STORIES HERE</a></p>
<p>Short. <a href="/log">The log</a> says so.</p><pre>Read more: code</pre><p>` + sentences + `</p>
<p>She said no.</p><h2>Sources</h2><ul><li><a href="/src">The log of the ship</a></li></ul></article>
<div class="share-buttons"><a href="/f">Share</a></div></div></body></html>`
	got := convertHTML(page, here).markdown
	for _, want := range []string{"A lead is kept", "![The ship at dawn. Photo: A. Other](https://example.com/s.jpg)", "Short. [The log]", "Read more: code", "She said no.", "## Sources", "[The log of the ship]"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing", want)
		}
	}
	for _, noise := range []string{"Home", "Ann Other", "10.40", "Another day", "SAILORS", "Share"} {
		if strings.Contains(got, noise) {
			t.Errorf("noise %q came through", noise)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
	tail := strings.Replace(page, "Sources", "Popular now", 1)
	if got := convertHTML(tail, here).markdown; strings.Contains(got, "Popular now") || strings.Contains(got, "log of the ship") {
		t.Errorf("links after the article came through:\n%s", got)
	}
}
