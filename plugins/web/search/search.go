package search

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Query is what is searched for. Empty fields ask for nothing special.
type Query struct {
	Text      string
	Count     int    // hits wanted, 1 to MaxCount
	Freshness string // day, week, month or year: not older than that
	Site      string // a host name: hits of this site only
	Safe      string // off, moderate or strict
}

// MaxCount is the most hits a query may want.
const MaxCount = 20

// Freshnesses and Safes are the values of Query's fields.
var (
	Freshnesses = []string{"day", "week", "month", "year"}
	Safes       = []string{"off", "moderate", "strict"}
)

// Hit is one result, as plain text.
type Hit struct {
	Title   string `json:"title"`
	URL     string `json:"url"`
	Snippet string `json:"snippet,omitempty"`
}

// Config of one provider. BaseURL is empty for the provider's own address.
type Config struct {
	Provider, Key, Engine, BaseURL string

	Interval time.Duration // between the starts of two requests
	Retries  int           // after 429 and 503
}

// provider turns a query into one request and its answer into hits.
type provider interface {
	request(ctx context.Context, q Query) (*http.Request, error)
	hits(body []byte) ([]Hit, error)
}

// kind is what there is to know of a provider before it is made.
type kind struct {
	base                  string // its own address; empty: the operator names one
	needsKey, needsEngine bool
	make                  func(c Config, base *url.URL) provider
}

var kinds = map[string]kind{
	"brave":      {base: "https://api.search.brave.com", needsKey: true, make: func(c Config, b *url.URL) provider { return brave{c, b} }},
	"duckduckgo": {base: "https://html.duckduckgo.com", make: func(_ Config, b *url.URL) provider { return duckduckgo{b} }},
	"google":     {base: "https://customsearch.googleapis.com", needsKey: true, needsEngine: true, make: func(c Config, b *url.URL) provider { return google{c, b} }},
	"searxng":    {make: func(c Config, b *url.URL) provider { return searxng{c, b} }},
	"tavily":     {base: "https://api.tavily.com", needsKey: true, make: func(c Config, b *url.URL) provider { return tavily{c, b} }},
}

// Providers are the names there are.
func Providers() []string {
	var names []string
	for name := range kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Fault is what is wrong with one key of a Config.
type Fault struct{ Key, Message string }

func (f *Fault) Error() string { return f.Message }

// Base is the address a provider is asked at; the error is a *Fault.
func (c Config) Base() (*url.URL, error) {
	k, ok := kinds[c.Provider]
	switch {
	case !ok:
		return nil, &Fault{"", fmt.Sprintf("search provider %q is not known; there are %s", c.Provider, strings.Join(Providers(), ", "))}
	case k.needsKey && c.Key == "":
		return nil, &Fault{"api_key", fmt.Sprintf("search provider %q needs an api_key", c.Provider)}
	case k.needsEngine && c.Engine == "":
		return nil, &Fault{"engine", fmt.Sprintf("search provider %q needs an engine, the id of a programmable search engine", c.Provider)}
	case k.base == "" && c.BaseURL == "":
		return nil, &Fault{"base_url", fmt.Sprintf("search provider %q needs a base_url, the address of the instance", c.Provider)}
	}
	base := c.BaseURL
	if base == "" {
		base = k.base
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, &Fault{"base_url", fmt.Sprintf("%q is not an http or https address without credentials and query", base)}
	}
	return u, nil
}

// Engines are the providers of one configuration.
type Engines struct {
	lines []*line
}

// New makes the providers; what they send goes through client, which must not
// follow redirects: the requests carry keys.
func New(configs []Config, client *http.Client) (*Engines, error) {
	e := &Engines{}
	for _, c := range configs {
		base, err := c.Base()
		if err != nil {
			return nil, err
		}
		e.lines = append(e.lines, &line{config: c, provider: kinds[c.Provider].make(c, base), client: client, turn: make(chan struct{}, 1)})
	}
	return e, nil
}

// ErrNone says that no provider is configured.
var ErrNone = errors.New("no search provider is configured")

// Failed is that every provider failed.
type Failed struct {
	Reasons []error
	Limited bool // one of them asked to wait
}

func (f *Failed) Error() string { return errors.Join(f.Reasons...).Error() }

// Search asks the providers in their order until one answers. One that is asked
// too often holds nobody up: the next is asked at once, and only where none
// answers are those that were too busy asked again. The name is that of the one
// that answered. The error is ErrNone, a *Failed, or the context's.
func (e *Engines) Search(ctx context.Context, q Query) (hits []Hit, name string, err error) {
	if len(e.lines) == 0 {
		return nil, "", ErrNone
	}
	errs, busy := make([]error, len(e.lines)), make([]bool, len(e.lines))
	for _, ask := range []func(*line) ([]Hit, error){
		func(l *line) ([]Hit, error) { return l.search(ctx, q, 0) },
		func(l *line) ([]Hit, error) { return l.again(ctx, q) },
	} {
		for i, l := range e.lines {
			if errs[i] != nil && (!busy[i] || l.config.Retries == 0) {
				continue
			}
			hits, err := ask(l)
			if err == nil {
				return hits[:min(len(hits), q.Count)], l.config.Provider, nil
			}
			if ctx.Err() != nil {
				return nil, "", ctx.Err()
			}
			var limited *limitedError
			errs[i], busy[i] = err, errors.As(err, &limited)
		}
	}
	failed := &Failed{Limited: slices.Contains(busy, true)}
	for i, l := range e.lines {
		failed.Reasons = append(failed.Reasons, fmt.Errorf("%s: %w", l.config.Provider, errs[i]))
	}
	return nil, "", failed
}
