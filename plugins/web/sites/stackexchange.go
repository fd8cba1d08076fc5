package sites

import (
	"context"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"
	"time"
)

// StackExchange reads questions with their answers, the accepted one first.
type StackExchange struct {
	API string // address of the interface
	Key string // may be empty: three hundred requests a day
}

// own are the sites of the network with a domain of their own, by the name that
// the interface has for them.
var own = map[string]string{
	"stackoverflow.com": "stackoverflow", "serverfault.com": "serverfault", "superuser.com": "superuser",
	"askubuntu.com": "askubuntu", "mathoverflow.net": "mathoverflow.net",
}

// Match knows /questions/N[/…] and /q/N of the network's sites.
func (x StackExchange) Match(u *url.URL) func(context.Context, Get) (Page, error) {
	site := ""
	for host, name := range own {
		if isHost(u, host) {
			site = name
		}
	}
	host := strings.ToLower(u.Hostname())
	if name, ok := strings.CutSuffix(host, ".stackexchange.com"); ok && isHost(u, host) && repoName.MatchString(name) {
		site = name
	}
	s := segments(u)
	if site == "" || len(s) < 2 || (s[0] != "questions" && s[0] != "q") || !isNumber(s[1]) {
		return nil
	}
	return func(ctx context.Context, get Get) (Page, error) { return x.question(ctx, get, site, s[1]) }
}

type post struct {
	Title      string
	Body       string
	Score      int
	IsAccepted bool  `json:"is_accepted"`
	Creation   int64 `json:"creation_date"`
	Answers    int   `json:"answer_count"`
	Tags       []string
	Link       string
	Owner      struct {
		Name string `json:"display_name"`
	}
}

func (p post) day() string { return time.Unix(p.Creation, 0).UTC().Format(time.DateOnly) }

func (x StackExchange) list(ctx context.Context, get Get, site, what, more string) ([]post, error) {
	q := url.Values{"site": {site}, "filter": {"withbody"}}
	if x.Key != "" {
		q.Set("key", x.Key)
	}
	var got struct {
		Items []post
		Error string `json:"error_message"`
	}
	err := fetchJSON(ctx, get, strings.TrimSuffix(x.API, "/")+"/2.3/questions/"+what+"?"+q.Encode()+more, nil, &got)
	if err == nil && got.Error != "" {
		err = fmt.Errorf("the site's interface says: %s", got.Error)
	}
	return got.Items, err
}

func (x StackExchange) question(ctx context.Context, get Get, site, id string) (Page, error) {
	found, err := x.list(ctx, get, site, id, "")
	if err != nil {
		return Page{}, err
	}
	if len(found) == 0 {
		return Page{}, ErrMissing
	}
	q := found[0]
	answers, err := x.list(ctx, get, site, id+"/answers", "&order=desc&sort=votes&pagesize=30")
	if err != nil {
		return Page{}, err
	}
	slices.SortStableFunc(answers, func(a, b post) int {
		switch {
		case a.IsAccepted == b.IsAccepted:
			return 0
		case a.IsAccepted:
			return -1
		}
		return 1
	})
	p := Page{Title: html.UnescapeString(q.Title)}
	var out strings.Builder
	fmt.Fprintf(&out, "<p>Asked by %s on %s, score %d, tags: %s</p>%s", q.Owner.Name, q.day(), q.Score, html.EscapeString(strings.Join(q.Tags, ", ")), q.Body)
	for _, a := range answers {
		kind := "Answer"
		if a.IsAccepted {
			kind = "Accepted answer"
		}
		fmt.Fprintf(&out, "<h2>%s by %s on %s, score %d</h2>%s", kind, a.Owner.Name, a.day(), a.Score, a.Body)
	}
	if len(answers) < q.Answers {
		p.Note = fmt.Sprintf("the %d best of %d answers are here", len(answers), q.Answers)
	}
	p.HTML = out.String()
	return p, nil
}
