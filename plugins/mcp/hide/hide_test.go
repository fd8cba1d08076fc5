package hide

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"testing"
)

func TestSecretsAreHidden(t *testing.T) {
	const token, key, password = "tok/with+odd=chars&more", "hunter2-topsecret", `pass"word\1`
	v := New("Bearer "+token, key, "Basic "+base64.StdEncoding.EncodeToString([]byte("me:"+password)), "short", "")
	for _, form := range []string{token, "Bearer " + token, key, url.QueryEscape(token), url.PathEscape(token), base64.StdEncoding.EncodeToString([]byte(token)),
		base64.RawURLEncoding.EncodeToString([]byte(key)), fmt.Sprintf("%q", password), password, "me:" + password} {
		got := v.Text("before " + form + " after")
		if strings.Contains(got, form) || !strings.Contains(got, In) || !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
			t.Errorf("%s: %s", form, got)
		}
	}
	if got := v.Text("a short text about me"); got != "a short text about me" {
		t.Error(got)
	}
	if err := v.Error(fmt.Errorf("%w near %s", io.EOF, key)); !errors.Is(err, io.EOF) || err.Error() != "EOF near "+In {
		t.Error(err)
	}
	if none := New("short", ""); none.Text(key) != key || none.Error(io.EOF) != io.EOF {
		t.Error("without secrets something is hidden")
	}
}

func TestLogsAreClean(t *testing.T) {
	var out strings.Builder
	v := New("hunter2-topsecret")
	log := slog.New(Log(slog.NewTextHandler(&out, nil), v)).With("key", "hunter2-topsecret")
	log.Warn("it said hunter2-topsecret", "error", errors.New("bad hunter2-topsecret"), "n", 5)
	if s := out.String(); strings.Contains(s, "hunter2") || strings.Count(s, In) != 3 || !strings.Contains(s, "n=5") {
		t.Error(s)
	}
}
