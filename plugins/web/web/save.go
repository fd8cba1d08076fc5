package web

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk"
)

// Folders of what is saved, in the shared folder.
const (
	pdfFolder       = "downloads"
	referenceFolder = "references"
)

const (
	maxName = 200 // bytes of a file's name, with room for what is added to it
	maxSame = 100 // files of one name that are numbered
)

type pdfArgs struct {
	URL  string `json:"url" doc:"Address of the PDF."`
	Name string `json:"filename,omitempty" doc:"Name of the file; without it the address's own."`
}

func (b *browser) pdfTool() *sdk.Tool {
	return sdk.NewTool("download_pdf",
		"Saves a PDF from the web into the shared folder, after a person has approved it. To only read one, use web_browse.",
		b.downloadPDF,
		sdk.WithTitle("Download a PDF"),
		sdk.WithTier(sdk.Restricted), sdk.WithGroup("research"), sdk.WithSource("web"),
		sdk.WithTimeout(90*time.Second), sdk.OpenWorld(),
	)
}

// downloadPDF asks a person itself, beside whatever the host's policy asks, and
// no setting takes that question away.
func (b *browser) downloadPDF(ctx context.Context, call *sdk.Call, in pdfArgs) (sdk.Result, error) {
	u, err := parseURL(in.URL)
	if err != nil {
		return sdk.Result{}, err
	}
	name, err := fileName(in.Name, u, "document.pdf", ".pdf")
	if err != nil {
		return sdk.Result{}, err
	}
	yes, asked := call.Input["download"]
	if !asked {
		return sdk.NeedInput([]sdk.InputRequest{sdk.Approval("download", fmt.Sprintf("Agent %q wants to save the PDF at %s as %s/%s in the shared folder.", call.Agent, u.Redacted(), pdfFolder, name))}, nil), nil
	}
	if !yes.Accepted() {
		return sdk.Result{}, sdk.Errorf(sdk.Denied, "the download of %s was not approved%s", u.Redacted(), because(yes.Reason))
	}
	p, err := b.whole(ctx, u)
	if err != nil {
		return sdk.Result{}, err
	}
	if !bytes.HasPrefix(p.body, []byte("%PDF-")) {
		_, media := classify(p.contentType, p.body)
		return sdk.Result{}, sdk.Errorf(sdk.ExecutionFailed, "%s is no PDF but %s; nothing was saved", p.url.Redacted(), media)
	}
	b.saving.Lock()
	defer b.saving.Unlock()
	return b.keep(call, pdfFolder, unused(call, pdfFolder, name), p, p.body, "application/pdf")
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// whole gets what is to be saved: all of it, from the server itself.
func (b *browser) whole(ctx context.Context, u *url.URL) (*fetched, error) {
	p, err := b.fetch.Load().now(ctx, u)
	switch {
	case err != nil:
		return nil, err
	case p.status != http.StatusOK:
		return nil, statusError(p, document{})
	case p.cut:
		return nil, sdk.Errorf(sdk.TooLarge, "%s is larger than max_page_size, %s; nothing was saved", p.url.Redacted(), b.conf.Get().MaxPageSize)
	}
	return p, nil
}

type referenceArgs struct {
	URL  string `json:"url" doc:"Address of the page or picture."`
	Name string `json:"filename,omitempty" doc:"Name of the file; without it one made of the address."`
	Note string `json:"note,omitempty" doc:"Why it is kept; stands in the file beside it."`
}

func (b *browser) referenceTool() *sdk.Tool {
	return sdk.NewTool("capture_reference",
		"Saves a page as Markdown, or a picture as it is, into the shared folder, with where and when it was found in a file beside it.",
		b.capture,
		sdk.WithTitle("Keep a reference"),
		sdk.WithTier(sdk.Elevated), sdk.WithGroup("research"), sdk.WithSource("web"),
		sdk.WithTimeout(90*time.Second), sdk.OpenWorld(),
	)
}

func (b *browser) capture(ctx context.Context, call *sdk.Call, in referenceArgs) (sdk.Result, error) {
	u, err := parseURL(in.URL)
	if err != nil {
		return sdk.Result{}, err
	}
	p, err := b.whole(ctx, u)
	if err != nil {
		return sdk.Result{}, err
	}
	body, ext, media := p.body, "", ""
	k, kind := classify(p.contentType, p.body)
	switch {
	case strings.HasPrefix(kind, "image/"):
		if ext, media = pictures[kind], kind; ext == "" {
			return sdk.Result{}, sdk.Errorf(sdk.ExecutionFailed, "pictures of type %s are not kept; PNG, JPEG, GIF, WebP and SVG are", kind)
		}
	case k == binary:
		return sdk.Result{}, sdk.Errorf(sdk.ExecutionFailed, "%s is %s (%d bytes), neither a page nor a picture; nothing was saved", p.url.Redacted(), kind, len(p.body))
	default:
		doc, err := b.read(ctx, p)
		if err != nil {
			return sdk.Result{}, err
		}
		if doc.status != "" {
			return sdk.Result{}, sdk.Errorf(sdk.ExecutionFailed, "%s\nNothing was saved.", shellNote(doc.status, ""))
		}
		body, ext, media = []byte(compose(p.url, "http", remarks(doc.note), doc).text()), ".md", "text/markdown"
	}
	name, err := fileName(in.Name, u, "page", ext)
	if err != nil {
		return sdk.Result{}, err
	}
	b.saving.Lock()
	defer b.saving.Unlock()
	name = unused(call, referenceFolder, name)
	result, err := b.keep(call, referenceFolder, name, p, body, media)
	if err != nil {
		return sdk.Result{}, err
	}
	source, err := json.MarshalIndent(map[string]string{"source": p.url.Redacted(), "asked": u.Redacted(), "found_at": time.Now().UTC().Format(time.RFC3339),
		"type": media, "agent": call.Agent, "note": in.Note}, "", "  ")
	if err == nil {
		_, err = call.Shared().WriteFile(path.Join(call.Shared().Folder(), referenceFolder, name+".source.json"), append(source, '\n'))
	}
	return result, err
}

var pictures = map[string]string{"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "image/svg+xml": ".svg"}

// unused is the name, or the first that no file has yet: what was kept before is
// not written over.
func unused(call *sdk.Call, folder, name string) string {
	shared, ext := call.Shared(), path.Ext(name)
	for i := 2; ; i++ {
		_, err := shared.Stat(path.Join(shared.Folder(), folder, name))
		if sdk.CodeOf(err) == sdk.NotFound && err != nil {
			return name
		}
		number := fmt.Sprintf("-%d", i)
		if i > maxSame {
			number = "-" + rand.Text()[:10]
		}
		if base, had := strings.CutSuffix(name, ext); had {
			if i > 2 {
				base = base[:strings.LastIndexByte(base, '-')]
			}
			name = base + number + ext
		}
	}
}

// keep writes a file and answers with a reference to it.
func (b *browser) keep(call *sdk.Call, folder, name string, p *fetched, body []byte, media string) (sdk.Result, error) {
	shared := call.Shared()
	ref, err := shared.WriteFile(path.Join(shared.Folder(), folder, name), body)
	if err != nil {
		return sdk.Result{}, err
	}
	ref.MIME, ref.Note = media, "from "+p.url.Redacted()
	return sdk.Contents(sdk.Text(fmt.Sprintf("Saved %s (%d bytes) from %s.", ref.Path, ref.Size, p.url.Redacted())), sdk.File(ref)), nil
}

// fileName makes a name for a file out of what the caller wants or of the
// address. It is one name without a path, and ends in ext.
func fileName(wanted string, u *url.URL, otherwise, ext string) (string, error) {
	name := strings.TrimSpace(wanted)
	if strings.ContainsAny(name, "/\\\x00") || name == "." || name == ".." {
		return "", sdk.Errorf(sdk.InvalidArguments, "filename %q is no plain name; name the file only, without a folder", wanted)
	}
	if name == "" {
		name = path.Base(u.Path)
		if name == "." || name == "/" {
			name = u.Hostname()
		}
	}
	name = strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`<>:"|?*\/`, r) {
			return '_'
		}
		return r
	}, strings.TrimLeft(name, "."))
	if name == "" {
		name = otherwise
	}
	if ext != "" && !strings.EqualFold(path.Ext(name), ext) {
		if known := mime.TypeByExtension(path.Ext(name)); known != "" {
			name = strings.TrimSuffix(name, path.Ext(name))
		}
		name += ext
	}
	if ext == "" {
		ext = path.Ext(name)
	}
	if len(name) > maxName {
		name = strings.ToValidUTF8(name[:maxName-min(len(ext), maxName/2)], "") + ext[:min(len(ext), maxName/2)]
	}
	return strings.ToValidUTF8(name, "_"), nil
}
