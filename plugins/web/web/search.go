package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/web/search"
	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/netguard"
)

// searcher is web_search with the settings in force.
type searcher struct {
	conf    *sdk.Config[settings]
	engines atomic.Pointer[search.Engines]
}

// apply makes the providers anew. Their own hosts may be private: the operator
// wrote their addresses down, no caller can change them.
func (s *searcher) apply(set *settings) error {
	var configs []search.Config
	hosts := slices.Clone(set.AllowHosts)
	for _, e := range set.Search {
		c := e.config()
		base, err := c.Base()
		if err != nil {
			return err
		}
		configs = append(configs, c)
		hosts = append(hosts, net.JoinHostPort(base.Hostname(), portOf(base)))
	}
	g, err := netguard.New(hosts)
	if err != nil {
		return err
	}
	engines, err := search.New(configs, &http.Client{
		Transport:     newTransport(g, set),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
	if err != nil {
		return err
	}
	s.engines.Store(engines)
	return nil
}

type searchArgs struct {
	Query     string `json:"query" doc:"What to search for."`
	Count     int    `json:"count,omitempty" doc:"Results wanted, 1 to 20."`
	Freshness string `json:"freshness,omitempty" doc:"Only pages of the last day, week, month or year." jsonschema:"enum=day,enum=week,enum=month,enum=year"`
	Site      string `json:"site,omitempty" doc:"Only pages of this site, such as example.org."`
	Safe      string `json:"safe_search,omitempty" doc:"off, moderate or strict; without it the operator's choice." jsonschema:"enum=off,enum=moderate,enum=strict"`
}

// found is the structured half of a result.
type found struct {
	Provider string       `json:"provider"`
	Results  []search.Hit `json:"results"`
}

func (s *searcher) tool() *sdk.Tool {
	return sdk.NewTool("web_search",
		"Searches the web and lists titles, addresses and snippets. Open what looks right with web_browse before relying on it.",
		s.search,
		sdk.WithTitle("Search the web"),
		sdk.WithTier(sdk.Elevated), sdk.WithGroup("research"), sdk.WithSource("web"),
		sdk.WithTimeout(90*time.Second), sdk.ReadOnly(), sdk.OpenWorld(), sdk.WithOutput[found](),
	)
}

// noEngine is the answer where the operator has configured no provider.
const noEngine = `web_search has no provider. The operator adds one to plugin "web": search "brave" { api_key = env("BRAVE_API_KEY") } or another of `

func (s *searcher) search(ctx context.Context, _ *sdk.Call, in searchArgs) (sdk.Result, error) {
	set := s.conf.Get()
	q := search.Query{Text: strings.TrimSpace(in.Query), Count: in.Count, Freshness: in.Freshness, Site: strings.TrimSpace(in.Site), Safe: in.Safe}
	if q.Text == "" {
		return sdk.Result{}, sdk.Errorf(sdk.InvalidArguments, "query is empty; say what to search for")
	}
	if n := len([]rune(q.Text)); n > maxQuery {
		return sdk.Result{}, sdk.Errorf(sdk.InvalidArguments, "query has %d characters; search engines take %d", n, maxQuery)
	}
	if strings.ContainsAny(q.Site, " /:?#@") {
		return sdk.Result{}, sdk.Errorf(sdk.InvalidArguments, "site %q is no host name; write it like example.org", q.Site)
	}
	if q.Count <= 0 {
		q.Count = set.MaxSearchResults
	}
	q.Count = min(q.Count, search.MaxCount)
	if q.Safe == "" {
		q.Safe = set.SafeSearch
	}
	hits, provider, err := s.engines.Load().Search(ctx, q)
	if err != nil {
		return sdk.Result{}, explainSearch(ctx, err)
	}
	result, err := sdk.JSON(found{provider, hits})
	result.Content = []sdk.Content{sdk.Text(listing(hits))}
	return result, err
}

// maxQuery is the longest query, in characters; Brave takes no more.
const maxQuery = 400

func explainSearch(ctx context.Context, err error) error {
	var failed *search.Failed
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, search.ErrNone):
		return sdk.Errorf(sdk.Unavailable, "%s%s", noEngine, strings.Join(search.Providers(), ", "))
	case errors.As(err, &failed):
		var reasons []string
		for _, r := range failed.Reasons {
			reasons = append(reasons, r.Error())
		}
		out := sdk.Errorf(sdk.ExecutionFailed, "The search failed. %s. Wait a while and search again, or open an address you know with web_browse.", strings.Join(reasons, "; "))
		if failed.Limited {
			return out.After(30 * time.Second)
		}
		return out.After(0)
	}
	return err
}

// listing is the numbered Markdown of a search.
func listing(hits []search.Hit) string {
	if len(hits) == 0 {
		return "No results found."
	}
	var out strings.Builder
	for i, h := range hits {
		fmt.Fprintf(&out, "%d. [%s](%s)", i+1, linkText.Replace(h.Title), linkURL.Replace(h.URL))
		if h.Snippet != "" {
			out.WriteString(" — " + h.Snippet)
		}
		out.WriteByte('\n')
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// A title or an address must not end the link it stands in.
var (
	linkText = strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`)
	linkURL  = strings.NewReplacer("(", "%28", ")", "%29", " ", "%20", "<", "%3C", ">", "%3E")
)
