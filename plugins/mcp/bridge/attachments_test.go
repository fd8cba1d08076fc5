package bridge

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/internal/badtest"
	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

func withFiles(t *testing.T, general conf, more conf) *sdktest.Session {
	t.Helper()
	server := conf{"name": "f", "url": badtest.HTTP(t, "files", "token=secret"), "auth": conf{"bearer": "secret"}, "endpoint_path": "files/", "upload_field_name": "blob"}
	for k, v := range more {
		server[k] = v
	}
	s := start(t, general, server)
	awaitTool(t, s, "f__uploads")
	return s
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

var passthrough = conf{"attachments": conf{"threshold": "10B", "outbound": conf{"param_paths": []string{"attachments[*]", "mail.parts[*].file"}}, "inbound": conf{"tools": []string{"GET_FILE"}}}}

func TestFilesGoOutByPath(t *testing.T) {
	s := withFiles(t, nil, passthrough)
	write(t, s.SharedDir, "attachments/small.txt", "123456789")
	write(t, s.SharedDir, "attachments/large.bin", strings.Repeat("x", 300_000))
	write(t, s.SharedDir, "results/refused.txt", "0123456789")
	write(t, filepath.Dir(s.SharedDir), "secret.txt", "secret")
	write(t, filepath.Dir(s.SharedDir), "shared-evil/secret.txt", "secret")
	for link, target := range map[string]string{"link.txt": "../../secret.txt", "folder": "../.."} {
		if err := os.Symlink(target, filepath.Join(s.SharedDir, "attachments", link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ args, want string }{
		{`{"id":9223372036854775807,"attachments":[{"path":"/shared/attachments/small.txt","k":[1,2]}]}`, `echo {"id":9223372036854775807,"attachments":[{"k":[1,2],"name":"small.txt","base64Content":"MTIzNDU2Nzg5"}]}`},
		{`{"attachments":[{"path":"small.txt","name":"mine.txt"},5,{"q":1},{"path":" "}]}`, `echo {"attachments":[{"name":"mine.txt","base64Content":"MTIzNDU2Nzg5"},5,{"q":1},{"path":" "}]}`},
		{`{"attachments":[{"path":"attachments/large.bin"}]}`, `echo {"attachments":[{"attachmentId":"up-1"}]}`},
		{`{"mail":{"parts":[{"file":{"path":"` + filepath.ToSlash(s.SharedDir) + `/attachments/small.txt"}}]}}`, `echo {"mail":{"parts":[{"file":{"name":"small.txt","base64Content":"MTIzNDU2Nzg5"}}]}}`},
		{`{"attachments":{"path":"small.txt"}}`, `echo {"attachments":{"path":"small.txt"}}`},
	} {
		s.Call("f__echo", c.args).WantText(c.want)
	}
	before := s.Call("f__log", "{}").Text
	for name, want := range map[string]string{
		"nosuch.txt": "no file", "/etc/passwd": "not a file this plugin can reach", "../secret.txt": "not a file this plugin can reach", "attachments/../../secret.txt": "not a file this plugin can reach",
		"link.txt": "link.txt", "folder/secret.txt": "folder/secret.txt", filepath.Dir(s.SharedDir) + "/shared-evil/secret.txt": "not a file this plugin can reach", "/shared/attachments": "regular file", "results/refused.txt": "HTTP 422: virus found",
	} {
		r := s.Call("f__echo", `{"attachments":[{"path":`+string(quote(name))+`}]}`)
		r.WantError("invalid_arguments", want)
		if !strings.Contains(r.Message, "was not called") || !strings.Contains(r.Message, "check that the path exists") || strings.Contains(r.Message, s.SharedDir) && !strings.Contains(name, filepath.Dir(s.SharedDir)) {
			t.Errorf("%s: %s", name, r.Message)
		}
	}
	if after := s.Call("f__log", "{}").Text; strings.Count(after, "bulkhead-") != strings.Count(before, "bulkhead-")+1 {
		t.Errorf("refused calls reached the server: %s, then %s", before, after)
	}
	s.Call("f__uploads", "{}").WantText(`blob large.bin 300000`)
}

func TestFilesComeInByPath(t *testing.T) {
	s := withFiles(t, nil, passthrough)
	read := func(r *sdktest.Reply) (string, string) {
		t.Helper()
		if r.IsError || len(r.Files) != 1 {
			t.Fatalf("%+v", r)
		}
		raw, err := os.ReadFile(filepath.Join(s.SharedDir, strings.TrimPrefix(r.Files[0].Path, "/shared/")))
		if err != nil {
			t.Fatal(err)
		}
		return r.Files[0].Path + " " + r.Files[0].MIME, string(raw)
	}
	for _, c := range []struct{ args, path, content string }{
		{`{"mode":"save"}`, "/shared/attachments/€ report.pdf application/pdf", "%PDF-1.7 body"},
		{`{"mode":"SAVE","sizeHint":5}`, "/shared/attachments/in.png image/png", "\x89PNG\r\n\x1a\n\x00\x01\x02"},
		{`{"mode":"Save","sizeHint":10}`, "/shared/attachments/€ report-2.pdf application/pdf", "%PDF-1.7 body"},
		{`{"mode":"save","sizeHint":"5"}`, "/shared/attachments/in-2.png image/png", "\x89PNG\r\n\x1a\n\x00\x01\x02"},
		{`{"mode":"save","kind":"evil"}`, "/shared/attachments/wd application/octet-stream", "evil"},
	} {
		path, content := read(s.Call("f__get_file", c.args))
		if path != c.path && !strings.Contains(c.path, "octet-stream") || content != c.content || strings.Contains(path, "..") {
			t.Errorf("%s: %s %q", c.args, path, content)
		}
	}
	s.Call("f__get_file", `{"mode":"stash"}`).WantText(`"attachmentId":"id/1"`)
	s.Call("f__get_file", `{"mode":"inline"}`).WantText(`"Base64"`)
	s.Call("f__get_file", `{"mode":"save","kind":"nothing"}`).WantText("no JSON here")
	for kind, want := range map[string]string{"gone": "HTTP 404", "badbase64": "not base64"} {
		if r := s.Call("f__get_file", `{"mode":"save","kind":"`+kind+`"}`); !r.IsError || !strings.Contains(r.Text, want) || strings.Contains(r.Text, "!!!") {
			t.Errorf("%s: %+v", kind, r)
		}
	}
	if r := s.Call("f__get_file", `{"mode":"save","kind":"error"}`); !r.IsError || !strings.Contains(r.Text, "attachmentId") {
		t.Errorf("%+v", r)
	}
	badtest.Await(t, "the server to hear that its files were fetched", func() bool {
		return strings.Count(s.Call("f__uploads", "{}").Text, "delete /files/id%2F1") == 2
	})
	left, err := filepath.Glob(filepath.Join(s.SharedDir, "attachments", "*"))
	if err != nil || len(left) != 5 {
		t.Errorf("%v %v", err, left)
	}
}

// A server that is a program has no endpoint: what is small goes in the message.
func TestFilesOfAProgram(t *testing.T) {
	c := bad(t, "p", "files")
	c["attachments"] = passthrough["attachments"]
	s := start(t, nil, c)
	awaitTool(t, s, "p__echo")
	write(t, s.SharedDir, "attachments/small.txt", "123456789")
	write(t, s.SharedDir, "attachments/large.txt", "0123456789")
	s.Call("p__echo", `{"attachments":[{"path":"small.txt"}]}`).WantText(`"base64Content":"MTIzNDU2Nzg5"`)
	s.Call("p__echo", `{"attachments":[{"path":"large.txt"}]}`).WantError("invalid_arguments", "threshold of 10 bytes")
	if r := s.Call("p__get_file", `{"mode":"save"}`); len(r.Files) != 1 || r.Files[0].Name != "in.png" {
		t.Errorf("%+v", r)
	}
}

func TestCapture(t *testing.T) {
	rule := conf{"tools": []string{"Get_Contents"}, "name_field": "name", "mime_field": "mime", "encoding_field": "encoding"}
	s := withFiles(t, nil, conf{"attachments": conf{"capture": conf{"rule": []conf{{"tools": []string{"other"}, "content_field": "sha"}, rule}}}})
	for kind, want := range map[string]string{
		"png": "/shared/attachments/logo", "unknown-binary": "/shared/attachments/core", "mime-wins": "/shared/attachments/notes", "mangled": "can't be recovered",
		"readme": "", "svg": "", "unknown-text": "", "utf-8": "", "few": "",
	} {
		r := s.Call("f__get_contents", `{"kind":"`+kind+`"}`)
		var structured map[string]json.RawMessage
		if err := json.Unmarshal(r.Structured, &structured); err != nil || string(structured["sha"]) != "18446744073709551615" {
			t.Fatalf("%s: %v %s", kind, err, r.Structured)
		}
		_, kept := structured["content"]
		if (want == "") != kept || !strings.Contains(r.Text, want) || !strings.Contains(string(r.Structured), want) || !strings.HasPrefix(r.Text, "before") || !strings.HasSuffix(r.Text, "after") ||
			strings.Contains(r.Text, `"content":`) != kept {
			t.Errorf("%s: %s %s", kind, clip(r.Text, 500), clip(string(r.Structured), 500))
		}
		if strings.HasPrefix(want, "/") {
			var path string
			if json.Unmarshal(structured["path"], &path) != nil {
				t.Fatalf("%s: %s", kind, r.Structured)
			}
			if _, err := os.Stat(filepath.Join(s.SharedDir, strings.TrimPrefix(path, "/shared/"))); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(s.SharedDir, "attachments", "*"))
	if err != nil || len(files) != 3 {
		t.Errorf("one file for each result: %v %v", err, files)
	}
	// Where there is nowhere to save to, the result stays as it was.
	if err := os.RemoveAll(filepath.Join(s.SharedDir, "attachments")); err != nil {
		t.Fatal(err)
	}
	write(t, s.SharedDir, "attachments", "a file in the way")
	if r := s.Call("f__get_contents", `{"kind":"png"}`); r.IsError || !strings.Contains(r.Text, `"content":`) {
		t.Errorf("%+v", r)
	}
}

func TestCaptureOff(t *testing.T) {
	s := start(t, nil, conf{"name": "bad", "command": []string{badtest.Bad(t)}, "attachments": conf{"capture": conf{"enabled": false}}})
	awaitTool(t, s, "bad__rich")
	if r := s.Call("bad__rich", `{"a":"x"}`); r.IsError || len(r.Files) != 0 {
		t.Errorf("%+v", r)
	}
}

func TestLeaf(t *testing.T) {
	for name, want := range map[string]string{
		"a.txt": "a.txt", "/etc/passwd": "passwd", `..\..\x.exe`: "x.exe", "": "attachment", "..": "attachment", "a\nb\x00c": "a_b_c", `a:b*c?.pdf`: "a_b_c_.pdf", "名前.png": "名前.png",
	} {
		if got := leaf(name); got != want {
			t.Errorf("%q: %q", name, got)
		}
	}
	if got := leaf(strings.Repeat("é", 300) + ".pdf"); len(got) > 155 || !strings.HasSuffix(got, ".pdf") {
		t.Error(got)
	}
}
