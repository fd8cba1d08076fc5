package cache

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// world is a server, whose answers a test sets, behind a cache.
type world struct {
	t      *testing.T
	dir    string
	store  *Store
	srv    *httptest.Server
	client *http.Client
	asked  atomic.Int64 // requests that reached the server
	answer atomic.Pointer[http.HandlerFunc]
}

func newWorld(t *testing.T, maxBytes int64) *world {
	t.Helper()
	w := &world{t: t, dir: filepath.Join(t.TempDir(), "pages")}
	w.srv = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.asked.Add(1)
		(*w.answer.Load())(rw, r)
	}))
	t.Cleanup(w.srv.Close)
	w.open(maxBytes)
	return w
}

// open starts anew on what is in the folder.
func (w *world) open(maxBytes int64) {
	store, err := Open(w.dir, maxBytes)
	if err != nil {
		w.t.Fatal(err)
	}
	w.store = store
	w.client = &http.Client{Transport: &Transport{Next: http.DefaultTransport, Store: store, Scope: "s", Max: 1 << 20}}
}

func (w *world) says(answer http.HandlerFunc) { w.answer.Store(&answer) }

// get gives the body, how it was had, and whether the server was asked.
func (w *world) get(path string, header ...string) (string, Use, bool) {
	w.t.Helper()
	var use Use
	req, err := http.NewRequestWithContext(Watch(w.t.Context(), &use), http.MethodGet, w.srv.URL+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	before := w.asked.Load()
	resp, err := w.client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(body), use, w.asked.Load() > before
}

func (w *world) files() []string {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join(w.dir, "*"))
	if err != nil {
		w.t.Fatal(err)
	}
	return files
}

func versioned(body *atomic.Value) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		text := body.Load().(string)
		tag := fmt.Sprintf("%q", "v-"+text)
		rw.Header().Set("ETag", tag)
		rw.Header().Set("Set-Cookie", "a=b")
		if r.Header.Get("If-None-Match") == tag {
			rw.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(rw, text) // the client is us
	}
}

// A copy without a lifetime is asked about each time; the server's word decides,
// and a copy outlives the process.
func TestValidation(t *testing.T) {
	w := newWorld(t, 1<<20)
	var body atomic.Value
	body.Store("one")
	w.says(versioned(&body))
	if text, use, asked := w.get("/"); text != "one" || !use.Fetched.IsZero() || !asked {
		t.Errorf("%q %+v %v", text, use, asked)
	}
	text, use, asked := w.get("/")
	if text != "one" || !use.Validated || use.Fetched.IsZero() || !asked {
		t.Errorf("%q %+v %v", text, use, asked)
	}
	first := use.Fetched
	w.open(1 << 20)
	if text, use, _ := w.get("/"); text != "one" || !use.Validated || !use.Fetched.Equal(first) || use.Checked.Before(first) {
		t.Errorf("after a restart: %q %+v, not of %s", text, use, first)
	}
	body.Store("two")
	if text, use, _ := w.get("/"); text != "two" || !use.Fetched.IsZero() {
		t.Errorf("changed: %q %+v", text, use)
	}
	if text, use, _ := w.get("/"); text != "two" || !use.Validated {
		t.Errorf("%q %+v", text, use)
	}
	raw, err := os.ReadFile(w.files()[0])
	if err != nil || bytes.Contains(raw, []byte("a=b")) {
		t.Errorf("%v; a cookie was kept: %s", err, raw)
	}
	// A page that is gone takes its copy with it; a server that fails does not.
	w.says(func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "later", http.StatusServiceUnavailable) })
	if text, use, _ := w.get("/"); text != "later\n" || !use.Fetched.IsZero() || len(w.files()) != 1 {
		t.Errorf("%q %+v %v", text, use, w.files())
	}
	w.says(http.NotFound)
	if text, use, _ := w.get("/"); !strings.Contains(text, "404") || !use.Fetched.IsZero() || len(w.files()) != 0 {
		t.Errorf("%q %+v %v", text, use, w.files())
	}
}

func TestLastModified(t *testing.T) {
	w := newWorld(t, 1<<20)
	at := time.Now().Add(-time.Hour)
	w.says(func(rw http.ResponseWriter, r *http.Request) {
		http.ServeContent(rw, r, "x.txt", at, strings.NewReader("dated"))
	})
	w.get("/")
	if text, use, asked := w.get("/"); text != "dated" || !use.Validated || !asked {
		t.Errorf("%q %+v %v", text, use, asked)
	}
	at = at.Add(time.Minute)
	if _, use, _ := w.get("/"); !use.Fetched.IsZero() {
		t.Errorf("%+v", use)
	}
}

// Within its lifetime a copy stands by itself, unless the caller wants to know.
func TestFreshness(t *testing.T) {
	w := newWorld(t, 1<<20)
	header := http.Header{}
	w.says(func(rw http.ResponseWriter, _ *http.Request) {
		for k, v := range header {
			rw.Header()[k] = v
		}
		_, _ = fmt.Fprintf(rw, "%d", w.asked.Load())
	})
	now := time.Now().UTC()
	for name, c := range map[string]struct {
		header http.Header
		fresh  bool // the second request is answered from the copy
		kept   bool
	}{
		"max-age":           {http.Header{"Cache-Control": {"public, max-age=60"}}, true, true},
		"expires":           {http.Header{"Expires": {now.Add(time.Minute).Format(http.TimeFormat)}}, true, true},
		"max-age wins":      {http.Header{"Expires": {now.Add(time.Minute).Format(http.TimeFormat)}, "Cache-Control": {"max-age=0"}}, false, false},
		"old when it came":  {http.Header{"Cache-Control": {"max-age=60"}, "Age": {"61"}}, false, false},
		"expired":           {http.Header{"Expires": {now.Add(-time.Minute).Format(http.TimeFormat)}}, false, false},
		"no date":           {http.Header{"Expires": {"0"}}, false, false},
		"no-store":          {http.Header{"Cache-Control": {"max-age=60, no-store"}, "ETag": {`"a"`}}, false, false},
		"private":           {http.Header{"Cache-Control": {"private, max-age=60"}, "ETag": {`"a"`}}, false, false},
		"vary by all":       {http.Header{"Cache-Control": {"max-age=60"}, "Vary": {"Accept, *"}}, false, false},
		"no-cache":          {http.Header{"Cache-Control": {"no-cache, max-age=60"}, "ETag": {`"a"`}}, false, true},
		"pragma":            {http.Header{"Pragma": {"no-cache"}, "Expires": {now.Add(time.Minute).Format(http.TimeFormat)}, "ETag": {`"a"`}}, false, true},
		"nothing said":      {nil, false, false},
		"odd":               {http.Header{"Cache-Control": {"max-age=-1, max-age=x,,=,"}}, false, false},
		"said twice":        {http.Header{"Cache-Control": {"max-age=60", "max-age=70"}}, false, false},
		"only a validator":  {http.Header{"Etag": {`W/"a"`}}, false, true},
		"longer than given": {http.Header{"Cache-Control": {"max-age=99999999"}}, true, true},
	} {
		header = c.header
		path := "/" + strings.ReplaceAll(name, " ", "-")
		before := len(w.files())
		first, _, _ := w.get(path)
		if kept := len(w.files()) > before; kept != c.kept {
			t.Errorf("%s: kept %v", name, kept)
		}
		second, use, asked := w.get(path)
		if asked == c.fresh || (second == first) != c.fresh || use.Validated || (use.Fresh > 0) != c.fresh || use.Fresh > maxFresh {
			t.Errorf("%s: %q, then %q, asked %v, %+v", name, first, second, asked, use)
		}
		if _, _, asked := w.get(path, "Cache-Control", "no-cache"); !asked {
			t.Errorf("%s: a caller that wants to know was not told", name)
		}
	}
	// A copy whose time is over, and one of the future, are asked about.
	header = http.Header{"Cache-Control": {"max-age=60"}}
	w.get("/time")
	for _, at := range []time.Duration{-2 * time.Minute, time.Hour} {
		key := w.client.Transport.(*Transport).key(must(http.NewRequest(http.MethodGet, w.srv.URL+"/time", nil)))
		e := w.store.get(key, w.srv.URL+"/time")
		if e == nil {
			t.Fatal("no copy")
		}
		e.Validated = time.Now().Add(at)
		if err := w.store.put(key, e); err != nil {
			t.Fatal(err)
		}
		if _, _, asked := w.get("/time"); !asked {
			t.Errorf("a copy of %s from now was shown", at)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// What is sent decides whose copy it is; credentials have none at all.
func TestWhose(t *testing.T) {
	w := newWorld(t, 1<<20)
	w.says(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Cache-Control", "max-age=60")
		_, _ = io.WriteString(rw, r.Header.Get("Accept")+r.Header.Get("Authorization")+r.Header.Get("Cookie"))
	})
	for _, header := range [][]string{{"Authorization", "Bearer a"}, {"Cookie", "a=b"}, {"Range", "bytes=0-1"}, {"Cache-Control", "no-store"}} {
		for range 2 {
			if _, use, asked := w.get("/", header...); !asked || !use.Fetched.IsZero() {
				t.Errorf("%v: %+v", header, use)
			}
		}
	}
	if got := w.files(); len(got) != 0 {
		t.Errorf("kept: %v", got)
	}
	for _, kind := range []string{"text/html", "text/plain"} {
		w.get("/", "Accept", kind)
		if text, use, asked := w.get("/", "Accept", kind); text != kind || asked || use.Fetched.IsZero() {
			t.Errorf("%q %+v %v", text, use, asked)
		}
	}
	w.client.Transport.(*Transport).Scope = "other"
	if _, _, asked := w.get("/", "Accept", "text/html"); !asked {
		t.Error("a copy of other settings was shown")
	}
	for _, method := range []string{http.MethodPost, http.MethodHead} {
		resp, err := w.client.Do(must(http.NewRequest(method, w.srv.URL+"/"+method, nil)))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	if got := len(w.files()); got != 3 {
		t.Errorf("%d copies", got)
	}
}

// A damaged copy is none, and is replaced.
func TestDamage(t *testing.T) {
	w := newWorld(t, 1<<20)
	w.says(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Cache-Control", "max-age=600")
		_, _ = io.WriteString(rw, "the body")
	})
	w.get("/")
	file := w.files()[0]
	whole := must(os.ReadFile(file))
	for name, damaged := range map[string][]byte{
		"empty": {}, "cut": whole[:len(whole)-3], "half a head": whole[:20], "longer": append(bytes.Clone(whole), 'x'),
		"other body": bytes.Replace(whole, []byte("the body"), []byte("The body"), 1), "no JSON": append([]byte("x"), whole...),
		"endless head": bytes.Repeat([]byte("x"), 1<<17), "other address": bytes.Replace(whole, []byte("127.0.0.1"), []byte("127.0.0.2"), 1),
		"a time that is none": bytes.Replace(whole, []byte(`"fetched":"`), []byte(`"fetched":"x`), 1),
	} {
		if err := os.WriteFile(file, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if text, use, asked := w.get("/"); text != "the body" || !asked || !use.Fetched.IsZero() {
			t.Errorf("%s: %q %+v %v", name, text, use, asked)
		}
		if text, _, asked := w.get("/"); text != "the body" || asked {
			t.Errorf("%s was not replaced", name)
		}
	}
	// A folder where a file should be, and a folder that can't be written.
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(file, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if text, _, asked := w.get("/"); text != "the body" || !asked {
		t.Error(text)
	}
	if err := os.RemoveAll(w.dir); err != nil {
		t.Fatal(err)
	}
	if text, _, asked := w.get("/"); text != "the body" || !asked {
		t.Error(text)
	}
}

// The folder stays below its bounds: the oldest copies go, and what is too large
// or incomplete never comes.
func TestBounds(t *testing.T) {
	const most = 100 << 10
	w := newWorld(t, most)
	w.says(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Cache-Control", "max-age=600")
		size := 10 << 10
		switch r.URL.Path {
		case "/large":
			size = most/4 + 1
		case "/broken":
			rw.Header().Set("Content-Length", "100000")
		}
		_, _ = rw.Write(bytes.Repeat([]byte("x"), size))
	})
	if err := os.WriteFile(filepath.Join(w.dir, "new-left"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(w.dir, "new-left"), old, old); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		w.get(fmt.Sprintf("/%d", i))
		var total int64
		for _, f := range w.files() {
			total += must(os.Stat(f)).Size()
			if strings.Contains(f, "new-left") {
				t.Error("a half written file of before is still there")
			}
		}
		if total > most {
			t.Fatalf("%d bytes lie there", total)
		}
	}
	if _, _, asked := w.get("/29"); asked {
		t.Error("the newest copy is gone")
	}
	if _, _, asked := w.get("/0"); !asked {
		t.Error("the oldest copy is still there")
	}
	before := len(w.files())
	w.get("/large")
	resp, err := w.client.Get(w.srv.URL + "/broken")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Error("a broken body came whole")
	}
	resp.Body.Close()
	resp, err = w.client.Get(w.srv.URL + "/left")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close() // without reading it
	if got := len(w.files()); got != before {
		t.Errorf("%d copies, then %d", before, got)
	}
	if _, _, asked := w.get("/large"); !asked {
		t.Error("a body that is too large was kept")
	}
}

func TestEntries(t *testing.T) {
	w := newWorld(t, 64<<20)
	w.says(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Cache-Control", "max-age=600")
		_, _ = io.WriteString(rw, "x")
	})
	for i := range maxEntries {
		name := filepath.Join(w.dir, fmt.Sprintf("%064d%s", i, suffix))
		if err := os.WriteFile(name, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.get("/")
	if got := len(w.files()); got != maxEntries {
		t.Errorf("%d entries", got)
	}
}

// Many at a time, on the same addresses, in a folder that is too small for them.
func TestConcurrent(t *testing.T) {
	w := newWorld(t, 40<<10)
	w.says(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("ETag", `"a"`)
		if r.Header.Get("If-None-Match") != "" {
			rw.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(rw, strings.Repeat(r.URL.Path, 3000))
	})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 50 {
				path := fmt.Sprintf("/%d", (g+i)%7)
				resp, err := w.client.Get(w.srv.URL + path)
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || string(body) != strings.Repeat(path, 3000) {
					t.Errorf("%s: %v, %d bytes", path, err, len(body))
				}
			}
		})
	}
	wg.Wait()
}
