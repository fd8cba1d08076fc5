package settings

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk"
)

func lines(s *Settings) (out []string) {
	for _, x := range Validate(context.Background(), s) {
		kind := "error"
		if x.Warning {
			kind = "warning"
		}
		out = append(out, kind+" "+x.Path.String()+": "+x.Summary)
	}
	return out
}

func TestFaultsStandAtTheirAttribute(t *testing.T) {
	for name, c := range map[string]struct {
		server Server
		want   []string // prefixes; empty = no fault
	}{
		"http":              {Server{Name: "a", URL: "https://x.example/mcp"}, nil},
		"stdio":             {Server{Name: "a", Command: []string{"npx", "x"}}, nil},
		"neither":           {Server{Name: "a"}, []string{`error server[0]: server "a" needs a url or a command`}},
		"both":              {Server{Name: "a", URL: "https://x", Command: []string{"y"}}, []string{"error server[0].url"}},
		"unknown transport": {Server{Name: "a", URL: "https://x", Transport: "carrier-pigeon"}, []string{"error server[0].transport"}},
		"wrong transport":   {Server{Name: "a", Command: []string{"y"}, Transport: "sse"}, []string{"error server[0].transport"}},
		"password":          {Server{Name: "a", URL: "https://u:p@x/"}, []string{"error server[0].url"}},
		"name":              {Server{Name: "a__b", URL: "https://x"}, []string{"error server[0]: server name"}},
		"name end":          {Server{Name: "a_", URL: "https://x"}, []string{"error server[0]: server name"}},
		"literal":           {Server{Name: "a", Command: []string{"y", "${HOME}/z"}}, nil},
		"tier":              {Server{Name: "a", URL: "https://x", Tier: "low"}, []string{"error server[0].tier"}},
		"guard":             {Server{Name: "a", URL: "https://x", ArgGuards: []ArgGuard{{Handler: "path-prefix"}}}, []string{"error server[0].arg_guard[0]: options: args is empty"}},
		"unknown guard":     {Server{Name: "a", URL: "https://x", ArgGuards: []ArgGuard{{Handler: "regexp"}}}, []string{`error server[0].arg_guard[0]: arg_guard "regexp" is not known; there are path-prefix and tool:NAME`}},
		"guard mode":        {Server{Name: "a", URL: "https://x", ArgGuards: []ArgGuard{{Handler: "tool:judge", Mode: "maybe"}}}, []string{"error server[0].arg_guard[0].mode"}},
		"attachments":       {Server{Name: "a", URL: "https://x", Isolation: "server", UploadFieldName: "f", EndpointPath: "/files", Attachments: &Attachments{Outbound: &Outbound{ParamPaths: []string{"a[*]", "b.c"}}}}, nil},
		"param path":        {Server{Name: "a", URL: "https://x", Attachments: &Attachments{Outbound: &Outbound{ParamPaths: []string{"a[*]", "b[0]"}}}}, []string{"error server[0].attachments[0].outbound[0].param_paths[1]"}},
		"endpoint":          {Server{Name: "a", URL: "https://x", EndpointPath: "/a/../b"}, []string{"error server[0].endpoint_path"}},
		"endpoint host":     {Server{Name: "a", URL: "https://x", EndpointPath: "https://y/z"}, []string{"error server[0].endpoint_path"}},
		"endpoint slashes":  {Server{Name: "a", URL: "https://x", EndpointPath: "//y/z"}, []string{"error server[0].endpoint_path"}},
		"endpoint escape":   {Server{Name: "a", URL: "https://x", EndpointPath: "/a/%2e%2e/b"}, []string{"error server[0].endpoint_path"}},
		"endpoint space":    {Server{Name: "a", URL: "https://x", EndpointPath: "/a b"}, []string{"error server[0].endpoint_path"}},
		"endpoint sound":    {Server{Name: "a", URL: "https://x", EndpointPath: "files/v1.2/"}, nil},
		"bearer":            {Server{Name: "a", URL: "https://x", Auth: &Auth{Bearer: "secret\n"}}, []string{"error server[0].auth[0].bearer"}},
		"header value":      {Server{Name: "a", URL: "https://x", Headers: map[string]string{"X": "a\x1bb"}}, []string{`error server[0].headers["X"]`}},
		"tool timeout":      {Server{Name: "a", URL: "https://x", ToolTimeout: sdk.Duration(99 * time.Hour)}, []string{"error server[0].tool_timeout", "warning server[0].tool_timeout"}},
		"threshold":         {Server{Name: "a", URL: "https://x", Attachments: &Attachments{Threshold: 1 << 40}}, []string{"error server[0].attachments[0].threshold"}},
		"elicitation":       {Server{Name: "a", URL: "https://x", Elicitation: &Elicitation{Mode: "auto"}}, nil},
		"elicitation mode":  {Server{Name: "a", URL: "https://x", Elicitation: &Elicitation{Mode: "guess"}}, []string{"error server[0].elicitation[0].mode"}},
		"responder":         {Server{Name: "a", URL: "https://x", Elicitation: &Elicitation{Responder: "oracle"}}, []string{"error server[0].elicitation[0].responder"}},
		"ttl":               {Server{Name: "a", URL: "https://x", HandbackTTL: 1}, []string{"warning server[0].handback_ttl"}},
		"tasks":             {Server{Name: "a", URL: "https://x", Tasks: true}, nil},
		"task timeout":      {Server{Name: "a", URL: "https://x", TaskTimeout: 1}, []string{"error server[0].task_timeout", "warning server[0].task_timeout"}},
		"header":            {Server{Name: "a", URL: "https://x", Headers: map[string]string{"X Y": "1"}}, []string{`error server[0].headers["X Y"]`}},
	} {
		t.Run(name, func(t *testing.T) {
			s := Defaults()
			s.Servers = []Server{c.server}
			got := lines(&s)
			if len(got) != len(c.want) {
				t.Fatalf("got %q, want %q", got, c.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], c.want[i]) {
					t.Errorf("got %q, want %q", got[i], c.want[i])
				}
			}
		})
	}
}

func TestTheFileOfTheSettings(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{filepath.Join(dir, "none.json"): "warning mcp_json", dir: "error mcp_json"} {
		s := Defaults()
		s.MCPJSON = path
		if got := lines(&s); len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%s: %q", path, got)
		}
	}
}

func TestAGuardedServerIsRefused(t *testing.T) {
	sound := json.RawMessage(`{"args":["p"],"allowed_prefixes":["/shared"]}`)
	for _, c := range []struct {
		guards  []ArgGuard
		granted []string
		want    string
	}{
		{[]ArgGuard{{Handler: "path-prefix"}}, nil, "args is empty"}, {[]ArgGuard{{Handler: "path-prefix", Options: sound}, {Handler: "nosuch"}}, nil, "not known"},
		{[]ArgGuard{{Handler: "tool:judge"}}, []string{"shared"}, `"tool:judge"`}, {[]ArgGuard{{Handler: "tool:judge"}}, []string{"tool:*"}, ""},
		{[]ArgGuard{{Handler: "path-prefix", Options: sound}}, nil, ""}, {nil, nil, ""},
	} {
		s := Server{Name: "a", URL: "https://x", ArgGuards: c.guards}
		if got := s.Refused(c.granted); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q", c.guards, got)
		}
	}
}

func TestNamesDifferByMoreThanCase(t *testing.T) {
	s := Defaults()
	s.Servers = []Server{{Name: "a", URL: "https://x"}, {Name: "A", URL: "https://y"}}
	if got := lines(&s); len(got) != 1 || !strings.Contains(got[0], "server[1]") {
		t.Errorf("%q", got)
	}
}
