package search

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// wires are the providers' answers: none at all, and with fields that are not what
// their documents say, among which one hit is good.
var wires = map[string]struct{ empty, odd []string }{
	"brave": {
		[]string{`{}`, `{"web":null}`, `{"web":{"results":null}}`, `{"web":{"results":[]},"mixed":{"main":[]}}`, `{"type":"search","query":{"original":"x"}}`},
		[]string{`{"web":{"type":"search","results":[null,7,{"title":8,"url":["x"]},{"title":"no address","url":null},{"title":"Good","url":"http://good.example/","description":{"text":"x"},"age":1,"meta_url":{}}]}}`},
	},
	"searxng": {
		[]string{`{}`, `{"results":null}`, `{"results":[],"answers":["42"],"unresponsive_engines":[["x","timeout"]]}`},
		[]string{`{"results":[null,"x",{"title":null,"url":"http://untitled.example/"},{"title":"Good","url":"http://good.example/","content":null,"score":"high"}],"number_of_results":0}`},
	},
	"tavily": {
		[]string{`{}`, `{"results":[],"answer":null}`},
		[]string{`{"answer":7,"results":[[],{"title":{},"url":{}},{"title":"Good","url":"http://good.example/","content":12,"raw_content":null}]}`},
	},
	"google": {
		[]string{`{}`, `{"kind":"customsearch#search","searchInformation":{"totalResults":"0"}}`, `{"items":null}`},
		[]string{`{"items":[null,{"title":"x"},{"title":"Good","link":"http://good.example/","snippet":false,"pagemap":{"cse_image":[{"src":7}]}}]}`},
	},
	"duckduckgo": {
		[]string{``, `<html><body><div class="no-results">No results.</div></body></html>`, `not HTML at all`},
		[]string{`<div class="result__snippet">before any</div><a class="result__a">no address</a><a class="result__a" href="javascript:x">x</a><a class="result__a" href="http://good.example/"><b>Good</a>`},
	},
}

// What each provider may answer beside hits: refusals, limits, nothing, oddities.
func TestEveryProvider(t *testing.T) {
	if len(wires) != len(Providers()) {
		t.Errorf("%d of %d providers are tried", len(wires), len(Providers()))
	}
	for name, wire := range wires {
		t.Run(name, func(t *testing.T) {
			ask := func(retries int, answer func(n int, w http.ResponseWriter)) ([]Hit, *engine, error) {
				srv := serve(t, answer)
				hits, _, err := make1(t, Config{Provider: name, Key: "secret-key", Engine: "e", BaseURL: srv.URL, Retries: retries}).Search(t.Context(), Query{Text: "x", Count: 5})
				return hits, srv, err
			}
			refuse := func(status int, body string) func(int, http.ResponseWriter) {
				return func(_ int, w http.ResponseWriter) { http.Error(w, body, status) }
			}
			for status, want := range map[int]string{
				http.StatusUnauthorized: "it refuses the request (status 401): bad key; is its key valid?", http.StatusForbidden: "it refuses the request (status 403)",
				http.StatusBadRequest: "status 400: bad key", http.StatusInternalServerError: "status 500", http.StatusBadGateway: "status 502",
			} {
				_, srv, err := ask(3, refuse(status, "bad key"))
				if err == nil || !strings.Contains(err.Error(), name+": "+want) || strings.Contains(err.Error(), "secret-key") || len(srv.starts) != 1 {
					t.Errorf("%d: %v, asked %d times", status, err, len(srv.starts))
				}
			}
			good := wire.odd[0]
			hits, srv, err := ask(3, func(n int, w http.ResponseWriter) {
				if n < 3 {
					w.Header().Set("Retry-After", "0")
					w.WriteHeader(http.StatusTooManyRequests)
					return
				}
				_, _ = io.WriteString(w, good) // the client is us
			})
			if err != nil || len(hits) != 1 || len(srv.starts) != 3 {
				t.Errorf("after 429: %v %v, asked %d times", hits, err, len(srv.starts))
			}
			_, srv, err = ask(1, func(_ int, w http.ResponseWriter) {
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(http.StatusTooManyRequests)
			})
			if failed := (*Failed)(nil); !errors.As(err, &failed) || !failed.Limited || len(srv.starts) != 2 {
				t.Errorf("always 429: %v, asked %d times", err, len(srv.starts))
			}
			for _, body := range wire.empty {
				if hits, _, err := ask(0, always(body)); err != nil || len(hits) != 0 {
					t.Errorf("%q: %v %v", body, hits, err)
				}
			}
			for _, body := range wire.odd {
				if hits, _, err := ask(0, always(body)); err != nil || len(hits) != 1 || hits[0].Title != "Good" || hits[0].URL != "http://good.example/" || hits[0].Snippet != "" {
					t.Errorf("%q: %+v %v", body, hits, err)
				}
			}
			if name != "duckduckgo" {
				for _, body := range []string{`{"web":{"results":[`, `[]`, `"x"`, ``} {
					if _, _, err := ask(0, always(body)); err == nil || !strings.Contains(err.Error(), "its answer can't be read") {
						t.Errorf("%q: %v", body, err)
					}
				}
			}
		})
	}
}

// Every value of the options reaches every provider in its own words.
func TestOptions(t *testing.T) {
	for name, values := range map[string]struct {
		freshness, safe string // names of the parameters
		fresh           []string
		safes           []string
	}{
		"brave":      {"freshness", "safesearch", []string{"pd", "pw", "pm", "py"}, []string{"off", "moderate", "strict"}},
		"searxng":    {"time_range", "safesearch", []string{"day", "week", "month", "year"}, []string{"0", "1", "2"}},
		"google":     {"dateRestrict", "safe", []string{"d1", "w1", "m1", "y1"}, []string{"off", "active", "active"}},
		"duckduckgo": {"df", "kp", []string{"d", "w", "m", "y"}, []string{"-2", "-1", "1"}},
		"tavily":     {"", "", []string{`"time_range":"day"`, `"time_range":"week"`, `"time_range":"month"`, `"time_range":"year"`}, []string{`"max_results":5}`, `"max_results":5}`, `"safe_search":true`}},
	} {
		srv := serve(t, always("{}"))
		e := make1(t, Config{Provider: name, Key: "k", Engine: "e", BaseURL: srv.URL})
		ask := func(q Query) {
			q.Text, q.Count = "x", 5
			if _, _, err := e.Search(t.Context(), q); err != nil {
				t.Error(err)
			}
		}
		has := func(parameter, want string) {
			t.Helper()
			got := srv.last.URL.Query().Get(parameter)
			if srv.last.Method == http.MethodPost {
				got = srv.form.Get(parameter)
			}
			if parameter != "" && got != want || parameter == "" && !strings.Contains(string(srv.body), want) {
				t.Errorf("%s: %s is %q, not %q; %s", name, parameter, got, want, srv.body)
			}
		}
		for i, f := range Freshnesses {
			ask(Query{Freshness: f})
			has(values.freshness, values.fresh[i])
		}
		for i, s := range Safes {
			ask(Query{Safe: s})
			has(values.safe, values.safes[i])
		}
		ask(Query{})
		if sent := fmt.Sprint(srv.last.URL.RawQuery, srv.form, string(srv.body)); strings.Contains(sent, "site") || values.freshness != "" && strings.Contains(sent, values.freshness+"=") {
			t.Errorf("%s: sent without being asked for: %s", name, sent)
		}
	}
}
