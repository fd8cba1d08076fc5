package bridge

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/downstream"
	"github.com/bulkhead-dev/bulkhead/plugins/mcp/splice"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// Files travel by path between an agent and the bridge, and as bytes between the
// bridge and a server: inside the arguments when they are small, else by the
// server's own endpoint for attachments.

// outgoing is what becomes of a call's arguments before they are sent. save says
// that the result is to become a file.
func (s *server) outgoing(ctx context.Context, call *sdk.Call, tool string, args json.RawMessage) (out json.RawMessage, save bool, err error) {
	if out, err = s.guarded(ctx, call, tool, args); err != nil {
		return nil, false, err
	}
	if s.conf.Attachments == nil {
		return out, false, nil
	}
	for _, p := range s.conf.OutboundPaths() {
		if out, err = p.Each(out, func(item json.RawMessage) (json.RawMessage, error) { return s.attach(ctx, item) }); err != nil {
			return nil, false, err
		}
	}
	if s.conf.Saves(tool) {
		out, save = s.asksToSave(out)
	}
	return out, save, nil
}

// incoming maps a result, its files saved where that was asked for or a rule wants
// it.
func (s *server) incoming(ctx context.Context, tool *downstream.Tool, args, raw json.RawMessage, save bool) (sdk.Result, error) {
	if save {
		if r, done := s.saved(ctx, tool.Name, raw); done {
			return r, nil
		}
	} else {
		raw = s.captured(tool.Name, raw)
	}
	return s.b.result(s, tool, args, raw)
}

// attach puts a file in place of its path: its bytes, or the id of an upload.
func (s *server) attach(ctx context.Context, item json.RawMessage) (json.RawMessage, error) {
	object, ok := splice.Object(item)
	if !ok {
		return nil, nil
	}
	var name string
	if raw, has := object.Get("path"); !has || json.Unmarshal(raw, &name) != nil || strings.TrimSpace(name) == "" {
		return nil, nil
	}
	refuse := func(err error) error {
		if ctx.Err() != nil {
			return s.failure(ctx, "the upload of "+name, s.inForce().CallTimeout(&s.conf), ctx.Err())
		}
		return sdk.Errorf(sdk.InvalidArguments, "the attachment %q can't be sent, and %q was not called: %w; check that the path exists, as in /shared/attachments/report.pdf", name, s.conf.Name, err)
	}
	file, err := s.b.plugin.Shared().Open(sharedName(name))
	if err != nil {
		return nil, refuse(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, refuse(err)
	}
	leaf := path.Base(filepath.ToSlash(name))
	threshold := s.conf.AttachmentThreshold()
	if info.Size() < threshold {
		var data bytes.Buffer
		if _, err := data.ReadFrom(limited(file, threshold)); err != nil {
			return nil, refuse(err)
		}
		add := []string{"base64Content", `"` + base64.StdEncoding.EncodeToString(data.Bytes()) + `"`}
		if object.Text("name") == "" {
			add = append([]string{"name", string(quote(leaf))}, add...)
		}
		return object.With([]string{"path", "base64Content"}, add...), nil
	}
	if s.conf.Stdio() {
		return nil, refuse(fmt.Errorf("it has %d bytes, and a server that is a program takes files below the threshold of %d bytes only", info.Size(), threshold))
	}
	id, err := s.transfers().upload(ctx, s.conf.UploadField(), leaf, info.Size(), file)
	if err != nil {
		return nil, refuse(err)
	}
	return object.With([]string{"path", "attachmentId"}, "attachmentId", string(quote(id))), nil
}

// sharedName is the name of a file in the shared folder; a bare one is an
// attachment's.
func sharedName(name string) string {
	name = strings.TrimSpace(filepath.ToSlash(name))
	if path.IsAbs(name) || filepath.IsAbs(name) || strings.HasPrefix(name, "attachments/") || strings.HasPrefix(name, "results/") {
		return name
	}
	return "attachments/" + strings.TrimPrefix(name, "./")
}

// asksToSave turns mode "save", which servers don't know, into one they do.
func (s *server) asksToSave(args json.RawMessage) (json.RawMessage, bool) {
	object, ok := splice.Object(args)
	if !ok || !strings.EqualFold(object.Text("mode"), "save") {
		return args, false
	}
	mode := `"stash"`
	if hint, ok := object.Get("sizeHint"); ok {
		n, err := strconv.ParseFloat(strings.Trim(string(hint), `" `), 64)
		if err == nil && n >= 0 && n < float64(s.conf.AttachmentThreshold()) {
			mode = `"inline"`
		}
	}
	if s.conf.Stdio() {
		mode = `"inline"` // there is nowhere to fetch from
	}
	out, err := splice.Key("mode").Each(args, func(json.RawMessage) (json.RawMessage, error) { return json.RawMessage(mode), nil })
	return out, err == nil
}

// saved stores what a server gave for mode "save". It is not done where the server
// failed or gave nothing to read; then its result stands.
func (s *server) saved(ctx context.Context, tool string, raw json.RawMessage) (sdk.Result, bool) {
	payload, ok := payloadOf(raw)
	if !ok {
		return sdk.Result{}, false
	}
	ref, err := s.fetchPayload(ctx, payload)
	if err != nil {
		return sdk.Failure("server %q answered %q, but its file could not be saved: %v", s.conf.Name, tool, err), true
	}
	return sdk.Files(ref), true
}

func (s *server) fetchPayload(ctx context.Context, payload splice.List) (sdk.FileRef, error) {
	name, mimeType := payload.Text("name"), payload.Text("mime", "mimeType", "contentType")
	if id := payload.Text("attachmentId", "id"); id != "" && !s.conf.Stdio() && payload.Text("base64Content", "base64", "data") == "" {
		return s.transfers().download(ctx, id, name, mimeType)
	}
	for _, key := range []string{"base64Content", "base64", "data"} {
		if text := payload.Text(key); text != "" {
			data, err := decodeBase64(text)
			if err != nil {
				return sdk.FileRef{}, fmt.Errorf("%s is not base64: %w", key, err)
			}
			return s.b.saveNamed(orElse(name, "attachment"), mimeType, bytes.NewReader(data))
		}
	}
	return sdk.FileRef{}, errors.New("it gave neither an attachmentId nor base64Content")
}

// payloadOf is the JSON object a successful result holds: in its first text that
// is one, else as structured content.
func payloadOf(raw json.RawMessage) (splice.List, bool) {
	var r struct {
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
		IsError    bool            `json:"isError"`
	}
	if json.Unmarshal(raw, &r) != nil || r.IsError {
		return splice.List{}, false
	}
	for _, c := range r.Content {
		if c.Type == "text" && json.Valid([]byte(c.Text)) {
			if o, ok := splice.Object(json.RawMessage(c.Text)); ok {
				return o, true
			}
		}
	}
	return splice.Object(r.Structured)
}

// decodeBase64 reads base64 as servers write it: with line breaks, without
// padding, in the alphabet for URLs.
func decodeBase64(s string) ([]byte, error) {
	s = strings.TrimRight(strings.Join(strings.Fields(s), ""), "=")
	if strings.ContainsAny(s, "-_") {
		return base64.RawURLEncoding.DecodeString(s)
	}
	return base64.RawStdEncoding.DecodeString(s)
}
