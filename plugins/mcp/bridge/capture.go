package bridge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/settings"
	"github.com/bulkhead-dev/bulkhead/plugins/mcp/splice"
)

// Binary content that a server puts as base64 into JSON becomes a file where a
// rule says in which field it is. Nothing is taken for base64 by its looks, and
// whatever fails leaves the server's result as it was.

const (
	// A text that was made of bytes by force: so many replacement characters in a
	// text of at least that length.
	mangledRunes  = 8
	mangledLength = 1024
	sniffed       = 8000
)

// captured applies the rule for a tool to a result.
func (s *server) captured(tool string, raw json.RawMessage) json.RawMessage {
	rule := s.conf.CaptureRule(tool)
	if rule == nil {
		return raw
	}
	var r struct {
		IsError bool `json:"isError"`
	}
	if json.Unmarshal(raw, &r) != nil || r.IsError {
		return raw
	}
	done := map[string]json.RawMessage{} // by what was in the field: the same bytes are one file
	out, err := splice.Key("content").Each(raw, func(list json.RawMessage) (json.RawMessage, error) {
		blocks, ok := splice.Members(list)
		if !ok {
			return nil, nil
		}
		for i, b := range blocks.All {
			block, ok := splice.Object(b.Value)
			text := block.Text("text")
			if !ok || block.Text("type") != "text" || !json.Valid([]byte(text)) {
				continue
			}
			if now := s.captureObject(rule, json.RawMessage(text), done); now != nil {
				changed, err := splice.Key("text").Each(b.Value, func(json.RawMessage) (json.RawMessage, error) { return quote(string(now)), nil })
				if err != nil {
					return nil, err
				}
				blocks.All[i].Value = changed
			}
		}
		return joined(blocks), nil
	})
	if err == nil {
		out, err = splice.Key("structuredContent").Each(out, func(o json.RawMessage) (json.RawMessage, error) {
			return s.captureObject(rule, o, done), nil
		})
	}
	if err != nil {
		s.log.Warn("a result was left as it is", "tool", tool, "error", err)
		return raw
	}
	return out
}

func joined(l splice.List) json.RawMessage {
	var out bytes.Buffer
	out.WriteByte('[')
	for i, m := range l.All {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(m.Value)
	}
	out.WriteByte(']')
	return out.Bytes()
}

// captureObject gives an object with a file in place of its content; nil = it
// stays as it is.
func (s *server) captureObject(rule *settings.Rule, raw json.RawMessage, done map[string]json.RawMessage) json.RawMessage {
	o, ok := splice.Object(raw)
	if !ok {
		return nil
	}
	field := func(name string) string {
		if name == "" {
			return ""
		}
		return o.Text(name)
	}
	content := o.Text(rule.ContentField)
	if content == "" {
		return nil
	}
	if enc := field(rule.EncodingField); enc != "" && !strings.EqualFold(enc, "base64") {
		return nil
	}
	data, err := decodeBase64(content)
	if err != nil {
		if strings.Count(content, "\uFFFD") < mangledRunes || utf8.RuneCountInString(content) < mangledLength {
			return nil
		}
		return o.With([]string{rule.ContentField, "note"}, "note", string(quote("The server turned this file's bytes into text, which destroyed them. They can't be recovered, and calling again gives the same.")))
	}
	name, mimeType := field(rule.NameField), field(rule.MIMEField)
	if !binary(mimeType, name, data) {
		return nil
	}
	ref, known := done[content]
	if !known {
		file, err := s.b.saveNamed(orElse(name, s.conf.Name+extension(mimeType)), mimeType, bytes.NewReader(data))
		if err != nil {
			s.log.Warn("a file of a result is not saved", "error", err)
			return nil
		}
		ref = quote(map[string]string{"path": file.Path, "name": file.Name, "mime": file.MIME, "size": fmt.Sprint(file.Size)})
		done[content] = ref
	}
	var f struct{ Path, Name, MIME, Size string }
	_ = json.Unmarshal(ref, &f) // just written
	return o.With([]string{rule.ContentField, "path", "name", "size", "mime", "note"},
		"path", string(quote(f.Path)), "name", string(quote(f.Name)), "size", f.Size, "mime", string(quote(f.MIME)),
		"note", string(quote("The content is binary and was saved to this path.")))
}

// binary says whether a model can do nothing with content as text: by its type,
// else by its name, else by its bytes.
func binary(mimeType, name string, data []byte) bool {
	if known, is := binaryType(mimeType); known {
		return is
	}
	if ext := strings.ToLower(path.Ext(name)); ext != "" {
		if known, is := binaryType(orElse(typesByExtension[ext], mime.TypeByExtension(ext))); known {
			return is
		}
	}
	if len(data) > sniffed {
		data = data[:sniffed]
		// A character that is cut off is no fault.
		for range utf8.UTFMax - 1 {
			if r, size := utf8.DecodeLastRune(data); r == utf8.RuneError && size == 1 {
				data = data[:len(data)-1]
			}
		}
	}
	return bytes.IndexByte(data, 0) >= 0 || !utf8.Valid(data)
}

var typesByExtension = map[string]string{
	".svg": "image/svg+xml", ".md": "text/markdown", ".txt": "text/plain", ".json": "application/json", ".png": "image/png", ".jpg": "image/jpeg", ".pdf": "application/pdf",
	".zip": "application/zip", ".docx": "application/vnd.openxmlformats-officedocument", ".xlsx": "application/vnd.openxmlformats-officedocument", ".pptx": "application/vnd.openxmlformats-officedocument",
	".ts": "text/plain", // not the transport stream of that ending
}

func binaryType(mimeType string) (known, is bool) {
	t, _, err := mime.ParseMediaType(mimeType)
	if err != nil {
		return false, false
	}
	kind, sub, _ := strings.Cut(t, "/")
	switch {
	case t == "image/svg+xml", kind == "text", strings.HasSuffix(sub, "+xml"), strings.HasSuffix(sub, "+json"), sub == "json", sub == "xml", sub == "javascript", sub == "yaml", sub == "x-yaml", sub == "toml":
		return true, false
	case kind == "image", kind == "audio", kind == "video", sub == "pdf", sub == "zip", sub == "gzip", sub == "x-tar", sub == "x-7z-compressed", sub == "msword",
		strings.HasPrefix(sub, "vnd.openxmlformats-officedocument"), strings.HasPrefix(sub, "vnd.ms-"), strings.HasPrefix(sub, "vnd.oasis.opendocument"):
		return true, true
	}
	return false, false
}
