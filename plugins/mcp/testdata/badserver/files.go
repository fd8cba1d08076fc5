package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

const filesTools = `,{"name":"get_file","description":"Gives a file.","inputSchema":{"type":"object","properties":{"mode":{"type":"string"},"sizeHint":{"type":"integer"},"kind":{"type":"string"}}}},
{"name":"get_contents","description":"Gives a file as JSON.","inputSchema":{"type":"object","properties":{"kind":{"type":"string"}}}},
{"name":"uploads","description":"Tells what was uploaded and deleted.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`

// files are what the endpoint for attachments holds.
type files struct {
	mu  sync.Mutex
	log []string
}

var store files

func (f *files) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, fmt.Sprintf(format, args...))
}

func (f *files) serve(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		if r.URL.Path != "/files" {
			http.NotFound(w, r)
			return
		}
		m, err := r.MultipartReader()
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		part, err := m.NextPart()
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		n, err := io.Copy(io.Discard, part)
		f.note("%s %s %d %v", part.FormName(), part.FileName(), n, err)
		if strings.HasPrefix(part.FileName(), "refused") {
			http.Error(w, "virus found", http.StatusUnprocessableEntity)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"AttachmentId":"up-1"}`)
	case http.MethodGet:
		switch r.URL.EscapedPath() {
		case "/files/id%2F1":
			w.Header().Set("Content-Type", "application/pdf")
			w.Header().Set("Content-Disposition", `attachment; filename="plain.pdf"; filename*=UTF-8''%e2%82%ac%20report.pdf`)
			fmt.Fprint(w, "%PDF-1.7 body")
		case "/files/evil":
			w.Header().Set("Content-Disposition", `attachment; filename="../../etc/pass\\wd"`)
			fmt.Fprint(w, "evil")
		default:
			http.NotFound(w, r)
		}
	case http.MethodDelete:
		f.note("delete %s", r.URL.EscapedPath())
		http.NotFound(w, r)
	}
}

var png = []byte("\x89PNG\r\n\x1a\n\x00\x01\x02")

// fileTool is the results of the file tools.
func fileTool(name string, args json.RawMessage) string {
	var a struct {
		Mode, Kind string
		SizeHint   int
	}
	_ = json.Unmarshal(args, &a) // nothing asked for is fine
	text := func(v any) string {
		raw, _ := json.Marshal(v)                                                                                          // strings
		outer, _ := json.Marshal(map[string]any{"content": []any{map[string]string{"type": "text", "text": string(raw)}}}) // likewise
		return string(outer)
	}
	b64 := base64.StdEncoding.EncodeToString
	switch name {
	case "uploads":
		store.mu.Lock()
		defer store.mu.Unlock()
		return text(map[string]any{"log": store.log})
	case "get_file":
		switch {
		case a.Kind == "error":
			return `{"content":[{"type":"text","text":"{\"attachmentId\":\"id/1\"}"}],"isError":true}`
		case a.Kind == "nothing":
			return `{"content":[{"type":"text","text":"no JSON here"}]}`
		case a.Kind == "gone":
			return text(map[string]string{"id": "gone"})
		case a.Kind == "evil":
			return text(map[string]string{"id": "evil"})
		case a.Kind == "badbase64":
			return text(map[string]string{"base64Content": "!!!", "name": "x"})
		case a.Mode == "stash":
			return text(map[string]string{"attachmentId": "id/1", "name": "payload.pdf"})
		case a.Mode == "inline":
			return text(map[string]string{"Base64": b64(png), "name": "in.png", "mimeType": "image/png"})
		}
		return text(map[string]string{"mode": a.Mode})
	case "get_contents":
		out := map[string]any{"sha": json.Number("18446744073709551615"), "encoding": "base64", "name": "logo.png", "content": b64(png)}
		switch a.Kind {
		case "readme":
			out["name"], out["content"] = "README.md", b64([]byte("# Hello\n"))
		case "svg":
			out["name"], out["content"] = "x.svg", b64([]byte("<svg/>"))
		case "unknown-text":
			out["name"], out["content"] = "LICENSE", b64([]byte(strings.Repeat("é", 4001)))
		case "unknown-binary":
			out["name"], out["content"] = "core", b64([]byte("\x00\xff\xfe"))
		case "mime-wins":
			out["name"], out["mime"], out["content"] = "notes.txt", "image/png", b64([]byte("text"))
		case "utf-8":
			out["encoding"] = "utf-8"
		case "mangled":
			out["content"] = strings.Repeat("x", 1100) + strings.Repeat("\uFFFD", 8)
		case "few":
			out["content"] = strings.Repeat("x", 1100) + strings.Repeat("\uFFFD", 7)
		}
		raw, _ := json.Marshal(out)            // strings
		quoted, _ := json.Marshal(string(raw)) // a string
		return `{"content":[{"type":"text","text":"before"},{"type":"text","text":` + string(quoted) + `},{"type":"text","text":"after"}],"structuredContent":` + string(raw) + `}`
	}
	return ""
}
