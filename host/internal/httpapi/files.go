package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/call"
	"github.com/bulkhead-dev/bulkhead/host/internal/content"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/policy"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
	"github.com/bulkhead-dev/bulkhead/sdk/regular"
)

const (
	fileScope = "http file"
	maxFiles  = 100 // of one result
)

// files gives an id to every file a result names.
func (a *API) files(reply *call.Reply, who call.Caller) (out []api.File) {
	for _, f := range named(reply.Result) {
		folder, _, ok := a.shared(f.Path)
		if !ok || !a.mayShow(reply.Tool, folder) {
			continue
		}
		id, err := a.seal(who.Agent, who.Session.ID, f)
		if err != nil {
			a.Log.Warn("a file could not be given an id", "path", f.Path, "error", err)
			continue
		}
		out = append(out, api.File{ID: id, Path: f.Path, Name: f.Name, Size: f.Size, Mime: f.Mime})
	}
	return out
}

// named are the files that a result names, up to the most that are dealt with.
func named(r *pluginv1.Result) (out []*pluginv1.FileRef) {
	for _, block := range r.GetContent() {
		var f *pluginv1.FileRef
		switch b := block.Block.(type) {
		case *pluginv1.Content_File:
			f = b.File
		case *pluginv1.Content_TextFile:
			f = b.TextFile
		case *pluginv1.Content_Resource:
			f = b.Resource.GetBlob()
		}
		if f != nil && len(out) < maxFiles {
			out = append(out, f)
		}
	}
	return out
}

// seal makes the id of a file: its name sealed for this agent, with the session in it.
// It can't be made up, and is good for nobody else. A plugin gives away only what it
// may see itself: whoever seals asks mayShow first.
func (a *API) seal(agent *policy.Agent, session string, f *pluginv1.FileRef) (string, error) {
	sealed, err := a.Store.Seal(fileScope, []byte(agent.Name), []byte(strings.Join([]string{session, f.Path, f.Mime}, "\x00")))
	return base64.RawURLEncoding.EncodeToString(sealed), err
}

// mayShow says whether the plugin behind a tool can itself see the folder.
func (a *API) mayShow(tool, folder string) bool {
	t, ok := a.Registry.Snapshot().Tool(tool)
	if !ok {
		return false
	}
	return t.Owner == registry.Host || folder == path.Join("plugins", t.Owner) || a.Policy.Granted(t.Owner, "shared")
}

// shared takes a /shared/… name apart: a folder no link inside may lead out of, and
// the rest.
func (a *API) shared(name string) (folder, rest string, ok bool) {
	rel, ok := strings.CutPrefix(path.Clean(name), "/shared/")
	if !ok || a.Shared == "" {
		return "", "", false
	}
	parts := strings.Split(rel, "/")
	depth := 1
	if parts[0] == "plugins" {
		depth = 2
	}
	if strings.HasPrefix(parts[0], ".") || len(parts) <= depth {
		return "", "", false
	}
	return path.Join(parts[:depth]...), path.Join(parts[depth:]...), true
}

// file serves a file of a result to the agent that got it.
func (a *API) file(w http.ResponseWriter, r *http.Request, who who) {
	f, info, kind, err := a.openFile(r.Context(), who.agent, r.PathValue("id"))
	if err != nil {
		fail(w, err)
		return
	}
	defer f.Close()
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": info.Name()}))
	http.ServeContent(w, r, "", info.ModTime(), f)
}

// openFile opens the file of an id for the agent that got it.
func (a *API) openFile(ctx context.Context, agent *policy.Agent, id string) (*os.File, fs.FileInfo, string, error) {
	unknown := fault.New(fault.UnknownFile, "no such file")
	sealed, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil {
		return nil, nil, "", unknown
	}
	plain, err := a.Store.Unseal(fileScope, []byte(agent.Name), sealed)
	parts := strings.Split(string(plain), "\x00")
	if err != nil || len(parts) != 3 {
		return nil, nil, "", unknown
	}
	if _, err := a.Sessions.Lookup(ctx, agent, parts[0]); err != nil {
		return nil, nil, "", unknown
	}
	f, info, err := a.openShared(parts[1])
	if err != nil {
		return nil, nil, "", unknown
	}
	return f, info, mediaType(parts[2], parts[1]), nil
}

// openShared opens a plain file of the shared folder. Its first folder may be a link
// by now, too, so that is opened from the shared folder on.
func (a *API) openShared(name string) (*os.File, fs.FileInfo, error) {
	folder, rest, ok := a.shared(name)
	if !ok {
		return nil, nil, fs.ErrNotExist
	}
	all, err := os.OpenRoot(a.Shared)
	if err != nil {
		return nil, nil, err
	}
	defer all.Close()
	root, err := all.OpenRoot(filepath.FromSlash(folder))
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	f, err := regular.OpenIn(root, filepath.FromSlash(rest))
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close() // it was only looked at
		return nil, nil, err
	}
	return f, info, nil
}

const (
	maxInline = 1 << 20 // bytes of an image that travels in a result
	allInline = 4 << 20 // of all images of one result
	maxLinked = 4 << 20 // of a file that is read as a resource
)

// Media are the files of a tool's result as blocks of MCP beside their descriptors: an
// image as it is, any other file as a link to a resource that File gives. They are for
// agents whose media are inline and, when they say nothing, for tools that are not a
// server's behind the bridge. What a file holds decides, not what it is called; what is
// not there, or nothing the plugin may see, is left a path.
func (a *API) Media(agent *policy.Agent, session, tool string, r *pluginv1.Result) (blocks []json.RawMessage) {
	t, ok := a.Registry.Snapshot().Tool(tool)
	if !ok || agent == nil || agent.Media == "path" || (agent.Media == "" && strings.HasPrefix(t.Source, "mcp:")) {
		return nil
	}
	put := func(block any) {
		if raw, err := content.Marshal(block); err == nil {
			blocks = append(blocks, raw)
		}
	}
	total := 0
	for _, f := range named(r) {
		folder, _, ok := a.shared(f.Path)
		if !ok || !a.mayShow(tool, folder) {
			continue
		}
		if total < allInline {
			if raw, kind := a.image(f.Path); raw != nil {
				total += len(raw)
				put(struct {
					Type string `json:"type"`
					Data []byte `json:"data"` // base64 in JSON
					MIME string `json:"mimeType"`
				}{"image", raw, kind})
				continue
			}
		}
		if link := a.link(agent, session, f); link != nil {
			put(link)
		}
	}
	return blocks
}

// link is the block that leads to a file; nil when it can't be read.
func (a *API) link(agent *policy.Agent, session string, ref *pluginv1.FileRef) any {
	f, info, err := a.openShared(ref.Path)
	if err != nil {
		return nil
	}
	_ = f.Close() // it was only looked at
	id, err := a.seal(agent, session, ref)
	if err != nil {
		return nil
	}
	return struct {
		Type string `json:"type"`
		URI  string `json:"uri"`
		Name string `json:"name"`
		MIME string `json:"mimeType"`
		Size int64  `json:"size"`
	}{"resource_link", registry.FilePrefix + id, path.Base(ref.Path), mediaType(ref.Mime, ref.Path), info.Size()}
}

// File gives what a linked file holds to the agent that got the link, in the session it
// got it in.
func (a *API) File(ctx context.Context, agent *policy.Agent, id string) ([]byte, string, error) {
	f, info, kind, err := a.openFile(ctx, agent, id)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxLinked+1))
	switch {
	case err != nil:
		return nil, "", fault.New(fault.UnknownFile, "no such file")
	case len(raw) > maxLinked:
		return nil, "", fault.New(fault.FileTooLarge, "the file has %d bytes; at most %d are read as a resource", info.Size(), maxLinked)
	}
	return raw, kind, nil
}

// image reads a file if it is an image that may travel in a result.
func (a *API) image(name string) (raw []byte, kind string) {
	f, info, err := a.openShared(name)
	if err != nil {
		return nil, ""
	}
	defer f.Close()
	if info.Size() == 0 || info.Size() > maxInline {
		return nil, ""
	}
	raw, err = io.ReadAll(io.LimitReader(f, maxInline+1))
	if err != nil || len(raw) > maxInline {
		return nil, ""
	}
	switch kind = http.DetectContentType(raw); kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return raw, kind
	}
	return nil, ""
}

// mediaType is what the plugin called it, if that is one, else what its name says.
func mediaType(said, name string) string {
	if _, _, err := mime.ParseMediaType(said); err == nil && strings.Contains(said, "/") {
		return said
	}
	if kind := mime.TypeByExtension(path.Ext(name)); kind != "" {
		return kind
	}
	return "application/octet-stream"
}
