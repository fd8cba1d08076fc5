package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/downstream"
	"github.com/bulkhead-dev/bulkhead/plugins/mcp/splice"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

const (
	// maxTransfer is the most bytes of one file that is fetched.
	maxTransfer = 1 << 30
	// maxAnswer is the most bytes of an answer that is no file.
	maxAnswer = 64 << 10
	// cleanTime is how long telling a server that a file was fetched may take.
	cleanTime = 5 * time.Second
)

// transfer moves files by a server's endpoint for attachments, which lies at the
// root of its address.
type transfer struct {
	s      *server
	client *http.Client
	base   url.URL
	done   func()
}

func (s *server) transfers() *transfer {
	t := s.target()
	client, done := downstream.FileClient(&t)
	x := &transfer{s: s, client: client, done: done}
	if u, err := url.Parse(s.conf.URL); err == nil { // checked before
		x.base = url.URL{Scheme: u.Scheme, Host: u.Host, Path: s.conf.Endpoint()}
	}
	return x
}

func (x *transfer) of(id string) string {
	u := x.base
	u.RawPath = u.EscapedPath() + "/" + url.PathEscape(id)
	u.Path += "/" + id
	return u.String()
}

func (x *transfer) where() string { return x.base.Path }

// upload sends a file and gives the id the server has for it.
func (x *transfer) upload(ctx context.Context, field, name string, size int64, file io.Reader) (string, error) {
	defer x.done()
	r, w := io.Pipe()
	form := multipart.NewWriter(w)
	go func() {
		part, err := form.CreateFormFile(field, name)
		if err == nil {
			_, err = io.Copy(part, limited(file, size))
		}
		if err == nil {
			err = form.Close()
		}
		_ = w.CloseWithError(err) // ends when the request has read or given up
	}()
	defer r.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.base.String(), r)
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	resp, err := x.client.Do(req)
	if err != nil {
		return "", fmt.Errorf("the upload to %s failed: %w", x.where(), bare(err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return "", fmt.Errorf("the upload to %s failed: %w", x.where(), err)
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated {
		return "", fmt.Errorf("the upload to %s was answered with HTTP %d: %s", x.where(), resp.StatusCode, clip(x.s.hide.Text(strings.TrimSpace(string(body))), 300))
	}
	answer, ok := splice.Object(json.RawMessage(body))
	for _, key := range []string{"attachmentId", "id"} {
		raw, has := answer.Get(key)
		var id string
		if !ok || !has {
			continue
		}
		if json.Unmarshal(raw, &id) != nil {
			id = string(raw) // a number stays what it is
		}
		if id != "" && id != "null" {
			return id, nil
		}
	}
	return "", fmt.Errorf("the upload to %s was answered without an attachmentId", x.where())
}

// download fetches a file, saves it, and tells the server that it need not be
// kept.
func (x *transfer) download(ctx context.Context, id, name, mimeType string) (sdk.FileRef, error) {
	defer x.done()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, x.of(id), nil)
	if err != nil {
		return sdk.FileRef{}, err
	}
	resp, err := x.client.Do(req)
	if err != nil {
		return sdk.FileRef{}, fmt.Errorf("fetching it from %s failed: %w", x.where(), bare(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return sdk.FileRef{}, fmt.Errorf("fetching it from %s was answered with HTTP %d", x.where(), resp.StatusCode)
	}
	if resp.ContentLength > maxTransfer {
		return sdk.FileRef{}, fmt.Errorf("it has %d bytes, at most %d are taken", resp.ContentLength, int64(maxTransfer))
	}
	if _, params, err := mime.ParseMediaType(resp.Header.Get("Content-Disposition")); err == nil && params["filename"] != "" {
		name = params["filename"]
	}
	if mimeType == "" {
		mimeType = resp.Header.Get("Content-Type")
	}
	ref, err := x.s.b.saveNamed(orElse(name, id), mimeType, limited(resp.Body, maxTransfer))
	if err != nil {
		return ref, err
	}
	x.clean(ctx, id)
	return ref, nil
}

// clean tells the server that a file was fetched. Whether it listens is its own
// affair, so nobody waits; the request ends by its own time.
func (x *transfer) clean(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	t := x.s.target()
	client, done := downstream.FileClient(&t)
	go func() {
		defer cancel()
		defer done()
		req, err := http.NewRequestWithContext(ctx, http.MethodDelete, x.of(id), nil)
		if err == nil {
			var resp *http.Response
			if resp, err = client.Do(req); err == nil {
				resp.Body.Close()
				return
			}
		}
		x.s.log.Debug("the server was not told that its file was fetched", "error", bare(err))
	}()
}

// bare is an error without the address, which may hold what is nobody's business.
func bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// limited reads at most n bytes; more is an error, not an end.
func limited(r io.Reader, n int64) io.Reader { return &limit{r, n} }

type limit struct {
	r    io.Reader
	left int64
}

func (l *limit) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, errors.New("it is larger than it said, or than is taken")
	}
	return n, err
}

// leaf is a name a file may have: no folders, nothing that is no character.
func leaf(name string) string {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	name = strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || r == '\uFFFD' || strings.ContainsRune(`<>:"/|?*`, r) {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(name, "_"))
	name = strings.TrimSpace(name)
	if ext := path.Ext(name); len(name) > 150 {
		if len(ext) > 20 {
			ext = ""
		}
		name = strings.ToValidUTF8(name[:150-len(ext)], "") + ext
	}
	if strings.Trim(name, ".") == "" {
		return "attachment"
	}
	return name
}
