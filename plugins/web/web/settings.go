package web

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/web/search"
	"github.com/bulkhead-dev/bulkhead/plugins/web/sites"
	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/netguard"
)

// settings of the plugin, as in its config block.
type settings struct {
	AllowHosts        []string     `hcl:"allow_hosts,optional" doc:"Hosts, host:port pairs or CIDR blocks that may be opened although they are private."`
	MaxSearchResults  int          `hcl:"max_search_results,optional" doc:"Results of a search when the call names no count."`
	ChunkingThreshold int64        `hcl:"chunking_threshold,optional" doc:"Characters above which a page is stored in parts."`
	ChunkMaxLength    int64        `hcl:"chunk_max_length,optional" doc:"Largest part, in characters."`
	ChunkTTL          sdk.Duration `hcl:"chunk_ttl,optional" doc:"How long the parts are kept."`
	FetchTimeout      sdk.Duration `hcl:"fetch_timeout,optional" doc:"Time for one page, redirects and body included."`
	RenderServiceURL  string       `hcl:"render_service_url,optional" doc:"Address of a render service, with POST /render and GET /health, that is used instead of plugin browser."`
	RenderTimeout     sdk.Duration `hcl:"render_timeout,optional" doc:"Time for rendering one page in a browser."`
	MaxPageSize       sdk.Size     `hcl:"max_page_size,optional" doc:"Bytes read of one page; what is beyond is left out, and the result says so."`
	CacheSize         sdk.Size     `hcl:"cache_size,optional" doc:"Bytes of copies of pages that are kept on disk; 0 keeps none."`
	UserAgent         string       `hcl:"user_agent,optional" doc:"What the plugin calls itself."`
	Proxy             string       `hcl:"proxy,optional" bulkhead:"sensitive" doc:"Address of an HTTP proxy, or none. Without it HTTPS_PROXY, HTTP_PROXY and NO_PROXY of the plugin's env are used; the host gives it only what its block names."`
	SafeSearch        string       `hcl:"safe_search,optional" doc:"off, moderate or strict, when the call doesn't say."`
	GitHub            *github      `hcl:"github,block" doc:"How GitHub's pages are read."`
	StackExchange     *stackex     `hcl:"stackexchange,block" doc:"How the pages of Stack Overflow and its network are read."`
	Search            []engine     `hcl:"search,block" doc:"A search provider, by name; the first that answers is used."`
}

type github struct {
	Token string `hcl:"token,optional" bulkhead:"sensitive" doc:"Token of an account; without it public repositories, sixty requests an hour."`
	API   string `hcl:"api,optional" doc:"Address of the interface."`
}

type stackex struct {
	Key string `hcl:"key,optional" bulkhead:"sensitive" doc:"Key of an application; without it three hundred requests a day."`
	API string `hcl:"api,optional" doc:"Address of the interface."`
}

// sites are the interfaces in use.
func (s *settings) sites() []sites.Site {
	g, x := sites.GitHub{API: "https://api.github.com"}, sites.StackExchange{API: "https://api.stackexchange.com"}
	if c := s.GitHub; c != nil {
		g.Token, g.API = c.Token, cmp.Or(c.API, g.API)
	}
	if c := s.StackExchange; c != nil {
		x.Key, x.API = c.Key, cmp.Or(c.API, x.API)
	}
	return []sites.Site{g, x}
}

// engine is one search provider.
type engine struct {
	Provider    string       `hcl:"provider,label"`
	APIKey      string       `hcl:"api_key,optional" bulkhead:"sensitive" doc:"Key of the provider."`
	Engine      string       `hcl:"engine,optional" doc:"Id of the programmable search engine; google only."`
	BaseURL     string       `hcl:"base_url,optional" doc:"Address of the provider; of an own instance, or of something compatible."`
	MinInterval sdk.Duration `hcl:"min_interval,optional" doc:"Time between the starts of two requests."`
	MaxRetries  int          `hcl:"max_retries,optional" doc:"Repetitions after the provider asked to wait."`
}

// Defaults are those of a provider's block.
func (e *engine) Defaults() { e.MinInterval, e.MaxRetries = sdk.Duration(1100*time.Millisecond), 3 }

func (e *engine) config() search.Config {
	return search.Config{Provider: e.Provider, Key: e.APIKey, Engine: e.Engine, BaseURL: e.BaseURL, Interval: e.MinInterval.Std(), Retries: e.MaxRetries}
}

func defaults() settings {
	return settings{
		MaxSearchResults:  5,
		SafeSearch:        "moderate",
		ChunkingThreshold: 8000,
		ChunkMaxLength:    4000,
		ChunkTTL:          sdk.Duration(30 * time.Minute),
		FetchTimeout:      sdk.Duration(30 * time.Second),
		RenderTimeout:     sdk.Duration(30 * time.Second),
		MaxPageSize:       5 << 20,
		CacheSize:         64 << 20,
		UserAgent:         "Mozilla/5.0 (compatible; Bulkhead/" + Version + ")",
	}
}

func validate(_ context.Context, s *settings) sdk.Diagnostics {
	var d sdk.Diagnostics
	for i, entry := range s.AllowHosts {
		if err := netguard.Valid(entry); err != nil {
			d.Errorf(sdk.Attr("allow_hosts").Index(i), "%v", err)
		}
	}
	if s.MaxSearchResults < 1 || s.MaxSearchResults > 20 {
		d.Errorf(sdk.Attr("max_search_results"), "a number from 1 to 20 is wanted here, not %d", s.MaxSearchResults)
	}
	for name, n := range map[string]int64{"chunking_threshold": s.ChunkingThreshold, "chunk_max_length": s.ChunkMaxLength} {
		if n < 100 {
			d.Errorf(sdk.Attr(name), "at least 100 characters are wanted here, not %d", n)
		}
	}
	for name, v := range map[string]sdk.Duration{"chunk_ttl": s.ChunkTTL, "fetch_timeout": s.FetchTimeout, "render_timeout": s.RenderTimeout} {
		if v <= 0 {
			d.Errorf(sdk.Attr(name), "a time above zero is wanted here")
		}
	}
	if s.MaxPageSize < 1<<10 || s.MaxPageSize > 64<<20 {
		d.Errorf(sdk.Attr("max_page_size"), "a size from 1KiB to 64MiB is wanted here, not %s", s.MaxPageSize)
	}
	if s.CacheSize != 0 && (s.CacheSize < 1<<20 || s.CacheSize > 4<<30) {
		d.Errorf(sdk.Attr("cache_size"), "0 or a size from 1MiB to 4GiB is wanted here, not %s", s.CacheSize)
	}
	if s.Proxy != "" && s.Proxy != noProxy {
		if u, err := url.Parse(s.Proxy); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			d.Errorf(sdk.Attr("proxy"), `"http://host:port", "https://host:port" or "none" is wanted here`)
		}
	}
	if u, err := url.Parse(s.RenderServiceURL); s.RenderServiceURL != "" && (err != nil || checkURL(u) != nil || u.RawQuery != "" || u.Fragment != "") {
		d.Errorf(sdk.Attr("render_service_url"), "an http or https address without credentials and query is wanted here")
	}
	if !slices.Contains(search.Safes, s.SafeSearch) {
		d.Errorf(sdk.Attr("safe_search"), "off, moderate or strict is wanted here, not %q", s.SafeSearch)
	}
	apis := map[string]string{}
	if s.GitHub != nil {
		apis["github"] = s.GitHub.API
	}
	if s.StackExchange != nil {
		apis["stackexchange"] = s.StackExchange.API
	}
	for block, address := range apis {
		if u, err := url.Parse(address); address != "" && (err != nil || checkURL(u) != nil || u.RawQuery != "" || u.Fragment != "") {
			d.Errorf(sdk.Block(block, 0).Attr("api"), "an http or https address without credentials and query is wanted here, not %q", address)
		}
	}
	for i, e := range s.Search {
		at := sdk.Block("search", i)
		var fault *search.Fault
		if _, err := e.config().Base(); errors.As(err, &fault) && fault.Key != "" {
			d.Errorf(at.Attr(fault.Key), "%s", fault.Message)
		} else if err != nil {
			d.Errorf(at, "%v", err)
		}
		if e.MinInterval < 0 || e.MinInterval > sdk.Duration(time.Minute) {
			d.Errorf(at.Attr("min_interval"), "a time from 0s to 1m is wanted here, not %s", e.MinInterval)
		}
		if e.MaxRetries < 0 || e.MaxRetries > 10 {
			d.Errorf(at.Attr("max_retries"), "a number from 0 to 10 is wanted here, not %d", e.MaxRetries)
		}
	}
	return d
}

// noProxy as the proxy setting means a direct connection whatever the environment says.
const noProxy = "none"
