package sites

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// get is a plain client; the plugin's own has its guard and its limits.
func get(ctx context.Context, address string, header http.Header) ([]byte, int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, 0, err
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return body, resp.StatusCode, err
}

// api answers by path and query; the key may begin with the type that is asked for.
func api(t *testing.T, answers map[string]string, want http.Header) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for k := range want {
			if r.Header.Get(k) != want.Get(k) {
				t.Errorf("%s of %s is %q, not %q", k, r.URL, r.Header.Get(k), want.Get(k))
			}
		}
		answer, ok := answers[r.Header.Get("Accept")+" "+r.URL.RequestURI()]
		if !ok {
			answer, ok = answers[r.URL.RequestURI()]
		}
		switch {
		case !ok:
			t.Logf("not known: %s %s", r.Header.Get("Accept"), r.URL.RequestURI())
			http.Error(w, `{"message":"Not Found"}`, http.StatusNotFound)
		case answer == "limit":
			http.Error(w, `{"message":"API rate limit exceeded"}`, http.StatusForbidden)
		default:
			_, _ = io.WriteString(w, answer) // the client is us
		}
	}))
	t.Cleanup(srv.Close)
	return srv
}

func read(t *testing.T, s Site, address string) (Page, error) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	how := Find([]Site{s}, u)
	if how == nil {
		t.Fatalf("%s is not known", address)
	}
	return how(t.Context(), get)
}

const issue = `{"number":7,"title":"It leaks","state":"open","user":{"login":"ada"},"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-03T00:00:00Z","html_url":"https://github.com/o/r/issues/7","comments":3,"labels":[{"name":"bug"},{"name":"p1"}],"body":"Steps:\n\n1. run"}`

const pull = `{"number":8,"title":"Fix it","state":"closed","merged":true,"user":{"login":"bob"},"html_url":"https://github.com/o/r/pull/8","comments":0,"base":{"label":"o:main"},"head":{"label":"bob:fix"},"additions":5,"deletions":2,"changed_files":1,"body":null}`

func TestGitHub(t *testing.T) {
	srv := api(t, map[string]string{
		"/repos/o/r/issues/7":                                                 issue,
		"/repos/o/r/issues/7/comments?per_page=100":                           `[{"user":{"login":"bob"},"created_at":"2026-01-02T10:00:00Z","body":"Me too"}]`,
		"/repos/o/r/issues/9":                                                 strings.Replace(issue, `"number":7`, `"number":9`, 1),
		"/repos/o/r/issues/9/comments?per_page=100":                           "limit",
		githubJSON + " /repos/o/r/pulls/8":                                    pull,
		"application/vnd.github.diff /repos/o/r/pulls/8":                      "diff --git a/x b/x\n+```\n",
		"application/vnd.github.raw /repos/o/r/contents/docs/a%20b.md?ref=v1": "# Hello\n",
		"application/vnd.github.raw /repos/o/r/contents/main.go?ref=main":     "package main\n\nfunc main() {}\n",
		"/repos/o/r/releases/latest":                                          `{"name":"","tag_name":"v1.2","body":"Faster","published_at":"2026-02-01T00:00:00Z","html_url":"https://github.com/o/r/releases/tag/v1.2","assets":[{"name":"r.tar.gz","size":42,"browser_download_url":"https://github.com/o/r/r.tar.gz"}]}`,
		"/repos/o/r/releases/tags/v1%2Fa":                                     `{"name":"One","tag_name":"v1/a","prerelease":true}`,
		"/repos/o/r/releases?per_page=10":                                     `[{"name":"Two","tag_name":"v2"},{"name":"One","tag_name":"v1"}]`,
	}, http.Header{"Authorization": {"Bearer token"}})
	g := GitHub{API: srv.URL + "/", Token: "token"}
	for _, c := range []struct {
		address, title, note string
		parts                []string
	}{
		{"https://github.com/o/r/issues/7#issuecomment-1", "Issue #7: It leaks [o/r]", "the first 1 of 3 comments", []string{"**Repository:** o/r", "**State:** open", "**Author:** ada", "**Labels:** bug, p1", "---\n\nSteps:\n\n1. run", "**bob** commented on 2026-01-02T10:00:00Z:\n\nMe too"}},
		{"http://www.GitHub.com/o/r/issues/9", "Issue #7: It leaks [o/r]"[:6], "its 3 comments could not be read: the site's interface answered 403 API rate limit exceeded", []string{"Steps:"}},
		{"https://github.com/o/r/pull/8", "PR #8: Fix it [o/r]", "", []string{"**State:** merged", "bob:fix → o:main", "1 files, +5 −2; the diff is at https://github.com/o/r/pull/8/files", "(no description)"}},
		{"https://github.com/o/r/pull/8/files", "Changes of PR #8 [o/r]", "", []string{"````diff\ndiff --git a/x b/x\n+```\n````"}},
		{"https://github.com/o/r/pull/8.diff", "Changes of PR #8 [o/r]", "", []string{"````diff\n"}},
		{"https://github.com/o/r/blob/v1/docs/a%20b.md", "docs/a b.md [o/r at v1]", "", []string{"# Hello"}},
		{"https://github.com/o/r/blob/main/main.go", "main.go [o/r at main]", "", []string{"```go\npackage main\n\nfunc main() {}\n```"}},
		{"https://github.com/o/r/blob/main/main.go#L3", "main.go [o/r at main]", "lines 3 to 3 of 4", []string{"```go\nfunc main() {}\n```"}},
		{"https://github.com/o/r/releases/latest", "Release v1.2 [o/r]", "", []string{"Faster", "- [r.tar.gz](https://github.com/o/r/r.tar.gz), 42 bytes"}},
		{"https://github.com/o/r/releases/tag/v1/a", "Release One [o/r]", "", []string{"**Pre-release**", "(no notes)"}},
		{"https://github.com/o/r/releases", "Releases [o/r]", "", []string{"## Two", "## One"}},
	} {
		p, err := read(t, g, c.address)
		if err != nil {
			t.Errorf("%s: %v", c.address, err)
			continue
		}
		if !strings.HasPrefix(p.Title, c.title) || !strings.HasPrefix(p.Note, c.note) || (c.note == "") != (p.Note == "") {
			t.Errorf("%s: %q, %q", c.address, p.Title, p.Note)
		}
		for _, part := range c.parts {
			if !strings.Contains(p.Markdown, part) {
				t.Errorf("%s: %q is missing in\n%s", c.address, part, p.Markdown)
			}
		}
	}
	if _, err := read(t, g, "https://github.com/o/r/issues/404"); !errors.Is(err, ErrMissing) {
		t.Error(err)
	}
}

// What only looks like a page of the site is left to the browser.
func TestForeign(t *testing.T) {
	all := []Site{GitHub{API: "http://127.0.0.1:1"}, StackExchange{API: "http://127.0.0.1:1"}}
	for _, address := range []string{
		"https://github.com/o/r", "https://github.com/o/r/issues", "https://github.com/o/r/issues/new", "https://github.com/o/r/issues/0", "https://github.com/o/r/issues/7x",
		"https://github.com/o/r/pull/x", "https://github.com/o/r/tree/main", "https://github.com/o/r/releases/x", "https://evil.example/o/r/issues/7", "https://github.com.evil.example/o/r/issues/7",
		"https://github.com:8443/o/r/issues/7", "https://gist.github.com/o/r/issues/7", "https://github.com/o/..%2f..%2fx/issues/7", "https://github.com/o/r%3Fx/issues/7",
		"https://github.com/o/r/blob/main/../../../../user/repos", "https://github.com/o/r/blob/main/%2e%2e/%2E%2e/x", "https://github.com/o/r/blob/main/a/.%2e/b", "https://github.com/o/r/blob/main/a%2f..%2f..%2fx", "https://github.com/o/r/blob/main/%252e%252e/x", "https://github.com/o/r/blob/main/..%5c..%5cuser",
		"https://github.com/../user/issues/7", "https://github.com/o/../issues/7", "https://github.com/%2e%2e/%2e%2e/issues/7", "https://github.com/o/r/releases/tag/../../../user", "https://github.com/o/r/releases/tag/..%2f..%2fuser", "https://github.com/o/r/blob/./x", "https://github.com/o/r/blob/main/x%0d%0ay", "https://github.com/o/r/issues/7/../8",
		"https://stackoverflow.com/questions/5/../../users", "https://stackoverflow.com/questions/5/%2e%2e",
		"https://stackoverflow.com/questions", "https://stackoverflow.com/questions/tagged/go", "https://stackoverflow.com/users/5", "https://stackexchange.com/questions/5", "https://a.b.stackexchange.com.evil.example/questions/5",
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if Find(all, u) != nil {
			t.Errorf("%s is taken", address)
		}
	}
}

func TestStackExchange(t *testing.T) {
	q := func(more string) string { return "filter=withbody&key=k&site=stackoverflow" + more }
	srv := api(t, map[string]string{
		"/2.3/questions/5?" + q(""): `{"items":[{"title":"How &amp; why?","body":"<p>What is <code>x &lt; y</code>?</p>","score":9,"creation_date":1767312000,"answer_count":3,"tags":["go"],"owner":{"display_name":"Ada &amp; Bob"}}]}`,
		"/2.3/questions/5/answers?" + q("&order=desc&sort=votes&pagesize=30"): `{"items":[{"body":"<p>Best voted</p>","score":20,"owner":{"display_name":"C"}},{"body":"<p>The one</p>","score":3,"is_accepted":true,"owner":{"display_name":"D"}}]}`,
		"/2.3/questions/6?" + q(""): `{"items":[]}`,
		"/2.3/questions/7?" + q(""): `{"error_message":"too many requests"}`,
	}, nil)
	x := StackExchange{API: srv.URL, Key: "k"}
	for _, address := range []string{"https://stackoverflow.com/questions/5/how-why", "https://stackoverflow.com/q/5"} {
		p, err := read(t, x, address)
		if err != nil {
			t.Fatal(err)
		}
		accepted, voted := strings.Index(p.HTML, "<h2>Accepted answer by D on 1970-01-01, score 3</h2><p>The one</p>"), strings.Index(p.HTML, "Best voted")
		if p.Title != "How & why?" || p.Note != "the 2 best of 3 answers are here" || !strings.HasPrefix(p.HTML, "<p>Asked by Ada &amp; Bob on 2026-01-02, score 9, tags: go</p><p>What is <code>x &lt; y</code>?</p>") || accepted < 0 || voted < accepted {
			t.Errorf("%+v", p)
		}
	}
	if _, err := read(t, x, "https://stackoverflow.com/questions/6"); !errors.Is(err, ErrMissing) {
		t.Error(err)
	}
	if _, err := read(t, x, "https://stackoverflow.com/questions/7"); err == nil || !strings.Contains(err.Error(), "too many requests") {
		t.Error(err)
	}
}

func ExampleFind() {
	u, _ := url.Parse("https://github.com/golang/go/issues/1")
	fmt.Println(Find([]Site{GitHub{API: "https://api.github.com"}}, u) != nil)
	// Output: true
}
