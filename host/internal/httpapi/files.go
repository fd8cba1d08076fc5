package httpapi

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/call"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

const (
	fileScope = "http file"
	maxFiles  = 100 // of one result
)

// files gives an id to every file a result names. An id is the file's name sealed
// for this agent, with the session in it: it can't be made up, and is good for
// nobody else. A plugin gives away only what it may see itself.
func (a *API) files(reply *call.Reply, who call.Caller) (out []api.File) {
	for _, block := range reply.Result.Content {
		var f *pluginv1.FileRef
		switch b := block.Block.(type) {
		case *pluginv1.Content_File:
			f = b.File
		case *pluginv1.Content_TextFile:
			f = b.TextFile
		case *pluginv1.Content_Resource:
			f = b.Resource.GetBlob()
		}
		if f == nil || len(out) == maxFiles {
			continue
		}
		folder, _, ok := a.shared(f.Path)
		if !ok || !a.mayShow(reply.Tool, folder) {
			continue
		}
		sealed, err := a.Store.Seal(fileScope, []byte(who.Agent.Name), []byte(strings.Join([]string{who.Session.ID, f.Path, f.Mime}, "\x00")))
		if err != nil {
			a.Log.Warn("a file could not be given an id", "path", f.Path, "error", err)
			continue
		}
		out = append(out, api.File{ID: base64.RawURLEncoding.EncodeToString(sealed), Path: f.Path, Name: f.Name, Size: f.Size, Mime: f.Mime})
	}
	return out
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
	if !slices.Contains([]string{"attachments", "results", "plugins"}, parts[0]) || len(parts) <= depth {
		return "", "", false
	}
	return path.Join(parts[:depth]...), path.Join(parts[depth:]...), true
}

// file serves a file of a result to the agent that got it.
func (a *API) file(w http.ResponseWriter, r *http.Request, who who) {
	f, info, kind, err := a.openFile(r, who)
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

func (a *API) openFile(r *http.Request, who who) (*os.File, fs.FileInfo, string, error) {
	unknown := fault.New(fault.UnknownFile, "no such file")
	sealed, err := base64.RawURLEncoding.DecodeString(r.PathValue("id"))
	if err != nil {
		return nil, nil, "", unknown
	}
	plain, err := a.Store.Unseal(fileScope, []byte(who.agent.Name), sealed)
	parts := strings.Split(string(plain), "\x00")
	if err != nil || len(parts) != 3 {
		return nil, nil, "", unknown
	}
	if _, err := a.Sessions.Lookup(r.Context(), who.agent, parts[0]); err != nil {
		return nil, nil, "", unknown
	}
	folder, rest, ok := a.shared(parts[1])
	if !ok {
		return nil, nil, "", unknown
	}
	root, err := os.OpenRoot(filepath.Join(a.Shared, filepath.FromSlash(folder)))
	if err != nil {
		return nil, nil, "", unknown
	}
	defer root.Close()
	// What is no plain file must not hold the open up.
	f, err := root.OpenFile(filepath.FromSlash(rest), os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, nil, "", unknown
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a plain file")
	}
	if err != nil {
		_ = f.Close() // it was only looked at
		return nil, nil, "", unknown
	}
	return f, info, mediaType(parts[2], rest), nil
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
