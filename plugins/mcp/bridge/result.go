package bridge

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"mime"
	"strings"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/downstream"
	"github.com/bulkhead-dev/bulkhead/plugins/mcp/naming"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// result maps what a server answered to a tools/call.
func (b *Bridge) result(s *server, tool *downstream.Tool, args, raw json.RawMessage) (sdk.Result, error) {
	r, ok := readResult(raw)
	if !ok {
		return sdk.Result{}, sdk.Errorf(sdk.ExecutionFailed, "server %q answered %q with what is no tool result: %s", s.conf.Name, tool.Name, clip(s.hide.Text(string(raw)), 200))
	}
	if r.Type != "" && r.Type != "complete" {
		return sdk.Result{}, sdk.Errorf(sdk.ExecutionFailed, "server %q answered %q with a result of type %q, which was not asked for and is not supported yet", s.conf.Name, tool.Name, clip(s.hide.Text(r.Type), 60))
	}
	out := sdk.Result{IsError: r.IsError}
	out.Structured, out.Meta = r.Structured, r.Meta
	texts := 0
	for _, block := range r.Content {
		for _, c := range b.block(s, tool.Name, block) {
			if c.Text != "" {
				texts++
			}
			out.Content = append(out.Content, c)
		}
	}
	if texts == 0 && len(out.Structured) > 0 && !hasText(r.Content) {
		out.Content = append(out.Content, sdk.Text(string(out.Structured)))
	}
	if r.IsError {
		hint(&out, tool, args)
	}
	return b.fit(tool.Name, out, raw)
}

func hasText(blocks []json.RawMessage) bool {
	for _, raw := range blocks {
		if m, ok := members(raw); ok && text(m["type"]) == "text" {
			return true
		}
	}
	return false
}

// block maps one block of content. What it does not know, or can't hold whole,
// passes as it came.
func (b *Bridge) block(s *server, tool string, raw json.RawMessage) []sdk.Content {
	m, ok := members(raw)
	if !ok {
		return []sdk.Content{sdk.Text(string(raw))}
	}
	str := func(key string) string { return text(m[key]) } // another type is empty
	annotations := m["annotations"]
	if !bytes.HasPrefix(bytes.TrimSpace(annotations), []byte("{")) {
		annotations = nil
	}
	switch str("type") {
	case "text":
		if only(m, "type", "text", "annotations") {
			return []sdk.Content{{Text: str("text"), Annotations: annotations}}
		}
	case "image", "audio":
		if !s.conf.Captures() {
			break
		}
		ref, err := b.save(tool, str("mimeType"), str("data"))
		if err != nil {
			s.log.Debug("media is passed on as it is", "tool", tool, "error", err)
			break
		}
		return []sdk.Content{{File: &ref, Annotations: annotations}}
	case "resource_link":
		link := sdk.ResourceLink{URI: str("uri"), Name: str("name"), Title: str("title"), Description: str("description"), MIME: str("mimeType"), Raw: raw}
		_ = json.Unmarshal(m["size"], &link.Size) // another type is no size
		return []sdk.Content{sdk.Link(link), sdk.Text(linkLine(s.conf.Name, link))}
	case "resource":
		if !s.conf.Captures() && len(m["resource"]) > 0 && bytes.Contains(m["resource"], []byte(`"blob"`)) {
			break
		}
		if c, ok := b.embedded(tool, m["resource"]); ok && only(m, "type", "resource", "annotations") {
			c.Annotations = annotations
			return []sdk.Content{c}
		}
	case "":
		return []sdk.Content{sdk.Text(string(raw))}
	}
	return []sdk.Content{sdk.RawBlock(raw)}
}

func only(m map[string]json.RawMessage, keys ...string) bool {
	n := 0
	for _, k := range keys {
		if _, ok := m[k]; ok {
			n++
		}
	}
	return n == len(m)
}

// linkLine tells a model how to read a resource that a result points at.
func linkLine(server string, l sdk.ResourceLink) string {
	label := orElse(l.Title, orElse(l.Name, l.URI))
	line := fmt.Sprintf("[resource link] %s: %s", label, l.URI)
	if l.MIME != "" {
		line += " (" + l.MIME + ")"
	}
	if l.Size > 0 {
		line += fmt.Sprintf(", %d bytes", l.Size)
	}
	args := `{"server_name":` + string(quote(server)) + `,"uri":` + string(quote(l.URI)) + `}`
	return strings.Join(strings.Fields(line), " ") + " — read it with mcp_read_resource " + args
}

// embedded maps a resource in a result: its text, or its bytes as a file.
func (b *Bridge) embedded(tool string, raw json.RawMessage) (sdk.Content, bool) {
	m, ok := members(raw)
	if !ok || !only(m, "uri", "mimeType", "text", "blob") {
		return sdk.Content{}, false
	}
	var r struct {
		URI  string  `json:"uri"`
		MIME string  `json:"mimeType"`
		Text *string `json:"text"`
		Blob *string `json:"blob"`
	}
	switch {
	case json.Unmarshal(raw, &r) != nil:
	case r.Text != nil:
		return sdk.Embedded(sdk.EmbeddedResource{URI: r.URI, MIME: r.MIME, Text: *r.Text}), true
	case r.Blob != nil:
		ref, err := b.save(tool, r.MIME, *r.Blob)
		if err == nil {
			ref.Note = "resource " + r.URI
			return sdk.Embedded(sdk.EmbeddedResource{URI: r.URI, MIME: r.MIME, Blob: &ref}), true
		}
	}
	return sdk.Content{}, false
}

// save stores base64 of a result as a file agents can pass on.
func (b *Bridge) save(name, mimeType, data string) (sdk.FileRef, error) {
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return sdk.FileRef{}, err
	}
	return b.store("attachments", name, mimeType, raw)
}

func (b *Bridge) store(folder, name, mimeType string, raw []byte) (sdk.FileRef, error) {
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	file := strings.Trim(naming.Clean(clip(name, 60)), "-") + "-" + hex.EncodeToString(id[:]) + extension(mimeType)
	ref, err := b.plugin.Shared().WriteFile(folder+"/"+file, raw)
	ref.Name, ref.MIME = file, orElse(mimeType, ref.MIME)
	return ref, err
}

// extensions of types whose first in the machine's table is an odd one.
var extensions = map[string]string{
	"image/jpeg": ".jpg", "image/png": ".png", "image/gif": ".gif", "image/webp": ".webp", "image/svg+xml": ".svg", "text/plain": ".txt",
	"audio/mpeg": ".mp3", "audio/wav": ".wav", "audio/ogg": ".ogg", "application/json": ".json", "application/pdf": ".pdf", "text/html": ".html", "text/markdown": ".md",
}

func extension(mimeType string) string {
	base, _, err := mime.ParseMediaType(mimeType)
	if err != nil {
		return ".bin"
	}
	if e := extensions[base]; e != "" {
		return e
	}
	if all, err := mime.ExtensionsByType(base); err == nil && len(all) > 0 {
		return all[0]
	}
	return ".bin"
}
