package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/web/sites"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// browser is web_browse with the settings in force.
type browser struct {
	conf   *sdk.Config[settings]
	fetch  atomic.Pointer[fetcher]
	search *searcher
	pdf    *pdfReader
	work   *workshop
	data   func() string // the plugin's own folder; empty = none

	sidecar atomic.Pointer[sidecar] // nil = no render service
	saving  sync.Mutex              // one file is named and written at a time
}

func newBrowser() *browser {
	b := &browser{conf: sdk.NewConfig(defaults()), pdf: newPDFReader(), work: newWorkshop(), data: func() string { return "" }}
	b.search = &searcher{conf: b.conf}
	b.conf.Validate = validate
	b.conf.Configure = func(_ context.Context, s *settings) error { return b.apply(s) }
	b.conf.Reconfigure = func(_ context.Context, _, s *settings) (bool, error) { return true, b.apply(s) }
	return b
}

func (b *browser) apply(s *settings) error {
	dir := b.data()
	if dir != "" {
		dir = filepath.Join(dir, "pages")
	}
	f, err := newFetcher(s, dir)
	if err != nil {
		return err
	}
	service, err := newSidecar(s.RenderServiceURL, f.guard)
	if err != nil {
		return err
	}
	if err := b.search.apply(s); err != nil {
		return err
	}
	b.sidecar.Swap(service).close()
	if old := b.fetch.Swap(f); old != nil {
		old.client.CloseIdleConnections()
	}
	return nil
}

type browseArgs struct {
	URL    string `json:"url" doc:"Address of the page, http:// or https://."`
	Render bool   `json:"render,omitempty" doc:"Render the page in a headless browser first, for pages that scripts build."`
}

func (b *browser) tool() *sdk.Tool {
	return sdk.NewTool("web_browse",
		"Opens a web page and gives its text as clean Markdown, with its title and where it came from. "+
			"JSON and plain text come as they are. A long page is stored in parts whose keys the result lists.",
		b.browse,
		sdk.WithTitle("Browse the web"),
		sdk.WithTier(sdk.Elevated), sdk.WithGroup("research"), sdk.WithSource("web"),
		sdk.WithTimeout(90*time.Second), sdk.ReadOnly(), sdk.OpenWorld(),
	)
}

// maxText keeps a result below the size of a message, in bytes.
const maxText = 3 << 20

func (b *browser) browse(ctx context.Context, call *sdk.Call, in browseArgs) (sdk.Result, error) {
	u, err := parseURL(in.URL)
	if err != nil {
		return sdk.Result{}, err
	}
	page, err := b.page(ctx, call, u, in.Render)
	if err != nil {
		return sdk.Result{}, err
	}
	return sdk.TextResult(page.text()).WithChunk(hint(u, b.conf.Get())), nil
}

// page is a page's text, with what to know about it: by its site's interface,
// else by HTTP, and where that gives only a shell or a refusal, rendered.
func (b *browser) page(ctx context.Context, call *sdk.Call, u *url.URL, render bool) (told, error) {
	s, fetch := b.conf.Get(), b.fetch.Load()
	browser := headless{b.sidecar.Load(), call.Host(), b.work, s.RenderTimeout.Std()}
	var notes []string
	why := noBrowser
	if render {
		var doc document
		var at *url.URL
		if doc, at, why = browser.page(ctx, u); why == "" && doc.status == "" {
			return compose(at, "headless browser", remarks(doc.note), doc), nil
		}
		why = cmp.Or(why, renderedShell)
		notes = append(notes, "[web_browse status: unavailable] "+why+" The page was fetched over HTTP, without running its scripts.")
	} else if read := sites.Find(s.sites(), u); read != nil {
		page, err := read(ctx, fetch.api)
		if err == nil {
			doc, err := b.fromSite(ctx, page, u)
			return compose(u, "site API", remarks(page.Note), doc), err
		}
		if ctx.Err() != nil {
			return told{}, ctx.Err()
		}
		notes = remarks(fmt.Sprintf("the site's interface failed (%s); this is the ordinary page", strings.TrimPrefix(err.Error(), fetchFailed)))
	}
	p, err := fetch.get(ctx, u)
	if err != nil {
		return told{}, err
	}
	doc, err := b.read(ctx, p)
	if err != nil {
		return told{}, err
	}
	refused := p.status == http.StatusForbidden || p.status == http.StatusServiceUnavailable
	if (refused || doc.status != "") && !render {
		var better document
		var at *url.URL
		if better, at, why = browser.page(ctx, u); why == "" && better.status == "" {
			return compose(at, "headless browser", append(notes, remarks(better.note)...), better), nil
		}
		why = cmp.Or(why, renderedShell)
	}
	if p.status >= http.StatusBadRequest {
		return told{}, statusError(p, doc)
	}
	notes = append(notes, remarks(ageNote(p.use, time.Now()))...)
	if p.left {
		notes = append(notes, remarks("on its way the page was redirected from https to http: who it comes from is not certain")...)
	}
	notes = append(notes, remarks(doc.note)...)
	if doc.status != "" {
		notes = append(notes, shellNote(doc.status, why))
	}
	if p.cut {
		notes = append(notes, fmt.Sprintf("[web_browse status: cut] The page is larger than %s (max_page_size); what follows is its beginning only.", s.MaxPageSize))
	}
	return compose(p.url, "http", notes, doc), nil
}

// hint is how the host stores a long text of an address.
func hint(asked *url.URL, s *settings) sdk.ChunkHint {
	return sdk.ChunkHint{
		KeyBase:   keyBase(asked),
		Threshold: s.ChunkingThreshold,
		ChunkMax:  s.ChunkMaxLength,
		TTL:       s.ChunkTTL.Std(),
		Category:  "web",
	}
}

// fromSite makes a document of what a site's interface told.
func (b *browser) fromSite(ctx context.Context, p sites.Page, at *url.URL) (document, error) {
	if p.HTML == "" {
		return document{title: oneLine(p.Title), markdown: strings.TrimSpace(p.Markdown)}, nil
	}
	title := oneLine(p.Title)
	return b.work.convert(ctx, func() document {
		return document{title: title, markdown: fragment(p.HTML, at)}
	}, func() document {
		return document{title: title, markdown: bareText(p.HTML)}
	})
}

// read turns a body into text by its kind.
func (b *browser) read(ctx context.Context, p *fetched) (document, error) {
	if len(p.body) == 0 {
		return document{status: emptyPage}, nil
	}
	k, media := classify(p.contentType, p.body)
	switch k {
	case markup:
		return b.work.html(ctx, toUTF8(p.contentType, p.body, true), p.url)
	case paper:
		if p.status >= http.StatusBadRequest {
			return document{}, nil
		}
		if p.cut {
			return document{}, sdk.Errorf(sdk.ExecutionFailed, "%s%s is a PDF larger than max_page_size, and a part of one can't be read", fetchFailed, p.url)
		}
		doc, err := b.pdf.read(ctx, p.body)
		if own := (*sdk.Error)(nil); err != nil && !errors.As(err, &own) && ctx.Err() == nil {
			err = sdk.Errorf(sdk.ExecutionFailed, "%s%s is a PDF that can't be read: %w", fetchFailed, p.url, err)
		}
		return doc, err
	case plain:
		asItIs := func() document { return document{markdown: toUTF8(p.contentType, p.body, false)} }
		return b.work.convert(ctx, func() document {
			if doc, ok := readFeed(p.body, p.url); ok && !p.cut {
				return doc
			}
			return asItIs()
		}, asItIs)
	}
	if p.status >= http.StatusBadRequest {
		return document{}, nil // the status is the news, not the body
	}
	return document{}, sdk.Errorf(sdk.ExecutionFailed, "Failed to fetch page: %s is %s (%d bytes), which is no text; web_browse reads HTML, PDF, feeds, JSON and other text", p.url, media, len(p.body))
}

// keyBase names the parts of a page in working memory; the host adds what keeps a
// second visit from overwriting the first.
func keyBase(u *url.URL) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-':
			return r
		}
		return '_'
	}, u.String())
	if len(name) > 80 {
		name = name[:80]
	}
	return "web-" + strings.TrimLeft(name, "_")
}
