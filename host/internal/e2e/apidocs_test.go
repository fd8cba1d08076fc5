package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
)

// The samples of the page on the HTTP API run as they stand there, in their order.
func TestHTTPAPIPage(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("the page's samples are curl's:", err)
	}
	raw, err := os.ReadFile(filepath.Join(root, "docs", "http-api.md"))
	if err != nil {
		t.Fatal(err)
	}
	var config string
	var commands []string
	for _, m := range fence.FindAllStringSubmatch(string(raw), -1) {
		switch m[1] {
		case "hcl":
			config += m[3]
		case "bash":
			for line := range strings.Lines(strings.ReplaceAll(m[3], "\\\n", " ")) {
				commands = append(commands, strings.TrimSpace(line))
			}
		case "json":
			var shape api.CallResult
			into := json.NewDecoder(strings.NewReader(m[3]))
			into.DisallowUnknownFields()
			if err := into.Decode(&shape); err != nil {
				t.Errorf("%v in %s", err, m[3])
			}
		}
	}
	w := newWorld(t, "", "web", "scheduling")
	w.installFileFixture()
	w.write("config.hcl", strings.Replace(w.config()[:strings.Index(w.config(), "frontend")], "\n\n", "\n", 1)+
		strings.Replace(config, "127.0.0.1:7411", "127.0.0.1:0", 1)+fileInstance("ff", "")+webBlock+schedulingBlock)
	w.mkdir("data/secrets")
	for _, n := range []string{"me", "researcher"} {
		w.secret(n, "secret-token-of-"+n)
	}
	w.serve()
	url := w.url()
	researcher := asker{t: t, url: url, token: "secret-token-of-researcher"}
	made := into[api.CallResult](researcher.call("ff_write", `{"path":"/shared/plugins/ff/a.txt","text":"a file"}`), 200)
	if len(made.Files) != 1 {
		t.Fatalf("no file: %+v", made)
	}
	q, covered := "", map[string]bool{}
	for _, line := range commands {
		if !strings.HasPrefix(line, "curl ") {
			t.Fatalf("only curl is run, not %q", line)
		}
		switch {
		case strings.Contains(line, "/v1/events") && !strings.Contains(line, "follow=false"):
			line = strings.Replace(line, "curl ", "curl --max-time 2 ", 1) // a stream has no end of its own
		}
		cmd := exec.Command("bash", "-c", line)
		cmd.Env = append(os.Environ(), "URL="+url, "ME=secret-token-of-me", "RESEARCHER=secret-token-of-researcher", "Q="+q, "FILE="+made.Files[0].ID)
		out, err := cmd.CombinedOutput()
		if err != nil && !strings.Contains(line, "--max-time") {
			t.Errorf("%s: %v\n%s", line, err, clip(string(out)))
		}
		t.Logf("%s\n%s", line, clip(string(out)))
		var r api.CallResult
		if json.Unmarshal(out, &r) == nil && len(r.Questions) > 0 {
			q = r.Questions[0]
		}
		if len(out) == 0 {
			t.Errorf("%s: says nothing", line)
		}
		covered[line] = true
	}
	if q == "" {
		t.Error("no sample met a question")
	}
	// Every row of the table of routes has a sample.
	for line := range strings.Lines(string(raw)) {
		row, ok := strings.CutPrefix(line, "| `")
		method, rest, found := strings.Cut(row, " ")
		if !ok || !found || (method != "GET" && method != "POST") {
			continue
		}
		path, _, _ := strings.Cut(rest, "`")
		if !sampled(covered, method, path) {
			t.Errorf("no sample of %s %s", method, path)
		}
	}
}

// sampled says whether a command asks a route.
func sampled(commands map[string]bool, method, pattern string) bool {
	for line := range commands {
		_, rest, ok := strings.Cut(line, `"$URL`)
		if !ok {
			continue
		}
		path, _, _ := strings.Cut(rest, `"`)
		path, _, _ = strings.Cut(path, "?")
		posts := strings.Contains(line, " --json ") || strings.Contains(line, "-X POST")
		if posts != (method == "POST") {
			continue
		}
		want, have := strings.Split(pattern, "/"), strings.Split(path, "/")
		same := len(want) == len(have)
		for i := range want {
			same = same && (want[i] == have[i] || strings.HasPrefix(want[i], "{"))
		}
		if same {
			return true
		}
	}
	return false
}
