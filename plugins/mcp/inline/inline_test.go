package inline

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func newTransport() *Transport {
	d := &net.Dialer{Timeout: 5 * time.Second}
	return New(&http.Transport{DialContext: d.DialContext, MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: 64 << 10})
}

func post(ctx context.Context, t *Transport, url, body string) (*http.Response, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp, string(raw), err
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// counting is a server that says how many connections it has had and has open.
func counting(t *testing.T, h http.HandlerFunc) (url string, had, open *atomic.Int64, s *httptest.Server) {
	had, open = new(atomic.Int64), new(atomic.Int64)
	s = httptest.NewUnstartedServer(h)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			had.Add(1)
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s.URL, had, open, s
}

func echo(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	_, _ = w.Write(raw)
}

func TestOneConnectionServesOneCallerAfterAnother(t *testing.T) {
	url, had, open, _ := counting(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Chunks") != "" {
			w.(http.Flusher).Flush()
		}
		echo(w, r)
	})
	tr := newTransport()
	for i := range 50 {
		body := fmt.Sprintf(`{"n":%d}`, i)
		if _, got, err := post(deadline(t), tr, url, body); err != nil || got != body {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if had.Load() != 1 {
		t.Errorf("%d connections were made", had.Load())
	}
	tr.CloseIdleConnections()
	for ctx := deadline(t); open.Load() > 0; {
		if ctx.Err() != nil {
			t.Fatalf("%d connections stay open", open.Load())
		}
		time.Sleep(time.Millisecond)
	}
}

func TestManyCallersGetTheirOwnAnswers(t *testing.T) {
	url, _, _, _ := counting(t, echo)
	tr := newTransport()
	defer tr.CloseIdleConnections()
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for j := range 50 {
				body := fmt.Sprintf("%d of %d", j, i)
				if _, got, err := post(deadline(t), tr, url, body); err != nil || got != body {
					t.Errorf("%q, %v", got, err)
					return
				}
			}
		})
	}
	all.Wait()
}

func TestAConnectionClosedWhileIdleIsNotUsed(t *testing.T) {
	var ran atomic.Int64
	url, had, _, s := counting(t, func(w http.ResponseWriter, r *http.Request) { ran.Add(1); echo(w, r) })
	tr := newTransport()
	for i := range 20 {
		if _, _, err := post(deadline(t), tr, url, "x"); err != nil {
			t.Fatal(err)
		}
		s.CloseClientConnections()
		if n := ran.Load(); n != int64(i+1) {
			t.Fatalf("%d requests ran after %d", n, i+1)
		}
	}
	if had.Load() != 20 {
		t.Errorf("%d connections", had.Load())
	}
}

// script is a server of raw bytes: f has each connection that is made.
func script(t *testing.T, f func(n int, c net.Conn, r *bufio.Reader)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				f(n, c, bufio.NewReader(c))
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

func readRequest(r *bufio.Reader) bool {
	req, err := http.ReadRequest(r)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, req.Body)
	return err == nil
}

func TestARequestThatWasTakenIsNotSentAgain(t *testing.T) {
	var ran atomic.Int64
	url := script(t, func(_ int, c net.Conn, r *bufio.Reader) {
		for i := 0; readRequest(r); i++ {
			ran.Add(1)
			if i == 1 {
				return // the second on a connection gets no answer
			}
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	tr := newTransport()
	if _, got, err := post(deadline(t), tr, url, "x"); err != nil || got != "ok" {
		t.Fatal(got, err)
	}
	_, got, err := post(deadline(t), tr, url, "x")
	if err == nil {
		t.Fatalf("an answer to a request that got none: %q", got)
	}
	if n := ran.Load(); n != 2 {
		t.Errorf("%d requests ran; 2 were made", n)
	}
	if _, got, err := post(deadline(t), tr, url, "x"); err != nil || got != "ok" {
		t.Fatal("after it: ", got, err)
	}
}

func TestWhatComesUnaskedEndsTheConnection(t *testing.T) {
	for name, extra := range map[string]string{"with the answer": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong", "after it": ""} {
		t.Run(name, func(t *testing.T) {
			late := make(chan struct{})
			url := script(t, func(_ int, c net.Conn, r *bufio.Reader) {
				if readRequest(r) {
					fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"+extra)
					if extra == "" {
						fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong")
					}
					late <- struct{}{}
					readRequest(r)
				}
			})
			tr := newTransport()
			for range 3 {
				_, got, err := post(deadline(t), tr, url, "x")
				if err != nil || got != "ok" {
					t.Fatalf("%q, %v", got, err)
				}
				<-late
			}
		})
	}
}

func TestNobodyWaitsForAnAnswerNobodyWants(t *testing.T) {
	for name, begun := range map[string]string{"no answer": "", "half a head": "HTTP/1.1 200 OK\r\nConte", "half a body": "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"} {
		t.Run(name, func(t *testing.T) {
			asked, left := make(chan struct{}), make(chan struct{})
			url := script(t, func(_ int, c net.Conn, r *bufio.Reader) {
				readRequest(r)
				fmt.Fprint(c, begun)
				close(asked)
				_, _ = r.ReadByte() // until the client goes
				close(left)
			})
			ctx, cancel := context.WithCancel(deadline(t))
			go func() { <-asked; cancel() }()
			if _, _, err := post(ctx, newTransport(), url, "x"); !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
			select {
			case <-left:
			case <-deadline(t).Done():
				t.Error("the server was not left")
			}
		})
	}
}

func TestAnswersOutOfOrderAreBounded(t *testing.T) {
	for name, c := range map[string]struct{ answer, want string }{
		"a head without end":    {"HTTP/1.1 200 OK\r\n" + strings.Repeat("X-Long: "+strings.Repeat("y", 1000)+"\r\n", 200), "longer than allowed"},
		"a line without end":    {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 1<<20), "longer than allowed"},
		"announced for ever":    {strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 50), "interim answers"},
		"another protocol":      {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", "protocol"},
		"no HTTP":               {"hello\r\n\r\n", "malformed"},
		"nothing":               {"", "EOF"},
		"two lengths":           {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nokk", "Content-Length"},
		"less than its length":  {"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok", "EOF"},
		"chunks that are cut":   {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nok", "EOF"},
		"a chunk of odd length": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok", "chunk"},
	} {
		t.Run(name, func(t *testing.T) {
			url := script(t, func(_ int, conn net.Conn, r *bufio.Reader) {
				readRequest(r)
				_, _ = io.WriteString(conn, c.answer) // the client may leave before the end
			})
			_, got, err := post(deadline(t), newTransport(), url, "x")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q, %v; want an error with %q", got, err, c.want)
			}
		})
	}
}

func TestAnswersOfUncommonShapeAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		answer, want string
		status       int
		closes       bool
	}{
		"announced first":     {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", 200, false},
		"until the end":       {"HTTP/1.1 200 OK\r\n\r\nok", "ok", 200, true},
		"an older revision":   {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", 200, true},
		"no content":          {"HTTP/1.1 204 No Content\r\n\r\n", "", 204, false},
		"chunks and trailers": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n2\r\nok\r\n0\r\nT: 1\r\n\r\n", "ok", 200, false},
	} {
		t.Run(name, func(t *testing.T) {
			// The connection stays as long as the answer lets it: were it closed after
			// one that keeps it, the next request could meet the end half-way.
			url := script(t, func(_ int, conn net.Conn, r *bufio.Reader) {
				for readRequest(r) {
					fmt.Fprint(conn, c.answer)
					if c.closes {
						return
					}
				}
			})
			tr := newTransport()
			for range 2 {
				if resp, got, err := post(deadline(t), tr, url, "x"); err != nil || got != c.want || resp.StatusCode != c.status {
					t.Errorf("%q, %v", got, err)
				}
			}
		})
	}
}

func TestARefusalBeforeTheEndOfTheBodyIsHeard(t *testing.T) {
	url := script(t, func(_ int, c net.Conn, r *bufio.Reader) {
		if _, err := http.ReadRequest(r); err == nil { // the body stays where it is
			fmt.Fprint(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
			_ = c.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, r)
		}
	})
	resp, got, err := post(deadline(t), newTransport(), url, strings.Repeat("x", maxBody))
	if err != nil || resp.StatusCode != 413 || got != "no" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAStreamIsReadAsItComesAndLeft(t *testing.T) {
	next, left := make(chan struct{}), make(chan struct{})
	url, _, _, _ := counting(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
			<-next
		}
		<-r.Context().Done()
		close(left)
	})
	req, err := http.NewRequestWithContext(deadline(t), http.MethodPost, url, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := newTransport().RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(resp.Body)
	for i := range 3 {
		line, err := r.ReadString('\n')
		if err != nil || line != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("%q, %v", line, err)
		}
		if _, err := r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		next <- struct{}{}
	}
	resp.Body.Close()
	select {
	case <-left:
	case <-deadline(t).Done():
		t.Error("the server was not left")
	}
}

func TestWhatIsNotForItGoesTheOtherWay(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(echo))
	defer s.Close()
	tr := newTransport()
	tr.other.TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig
	defer tr.CloseIdleConnections()
	if _, got, err := post(deadline(t), tr, s.URL, "secret"); err != nil || got != "secret" {
		t.Errorf("over TLS: %q, %v", got, err)
	}
	url, _, _, _ := counting(t, echo)
	large := strings.Repeat("x", maxBody+1)
	if _, got, err := post(deadline(t), tr, url, large); err != nil || got != large {
		t.Errorf("a large body: %d bytes, %v", len(got), err)
	}
	req, err := http.NewRequestWithContext(deadline(t), http.MethodPut, url, bytes.NewReader([]byte("put")))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if raw, err := io.ReadAll(resp.Body); err != nil || string(raw) != "put" {
		t.Errorf("PUT: %q, %v", raw, err)
	}
	for _, list := range tr.idle {
		if len(list) > 0 {
			t.Error("one of these has a connection here")
		}
	}
}

func TestIdleConnectionsAreClosedInTime(t *testing.T) {
	url, had, open, _ := counting(t, echo)
	tr := newTransport()
	tr.other.IdleConnTimeout = 50 * time.Millisecond
	if _, _, err := post(deadline(t), tr, url, "x"); err != nil {
		t.Fatal(err)
	}
	for ctx := deadline(t); open.Load() > 0 || had.Load() != 1; {
		if ctx.Err() != nil {
			t.Fatalf("%d of %d connections stay open", open.Load(), had.Load())
		}
		time.Sleep(time.Millisecond)
	}
}
