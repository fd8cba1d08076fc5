package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// everywhere is all the ways in which diagnostics reach people.
func everywhere(t *testing.T, c *Config, diags hcl.Diagnostics) string {
	t.Helper()
	var b bytes.Buffer
	must(t, Write(&b, diags, c.Sources(), true))
	b.Write(JSON(diags))
	fmt.Fprintf(&b, "%v %+v", diags, Err(diags))
	// The library's own writer would render the values of an expression.
	files := map[string]*hcl.File{}
	for name, src := range c.Sources() {
		files[name] = &hcl.File{Bytes: src}
	}
	must(t, hcl.NewDiagnosticTextWriter(&b, files, 200, false).WriteDiagnostics(diags))
	for _, d := range diags {
		fmt.Fprintf(&b, "%v %+v %v", d, *d, d.Extra)
		if d.Expression != nil || d.EvalContext != nil {
			t.Error("a diagnostic carries its expression")
		}
	}
	return b.String()
}

func TestSensitiveValuesAreNeverShown(t *testing.T) {
	const fromSecret, fromEnv, literal = "secret-from-file", "secret-from-env", "secret-literal"
	t.Setenv("BULKHEAD_TEST_KEY", fromEnv)
	schema := body(
		attr("key", text, sensitive), attr("number", number), attr("flag", yesNo), attr("list", "list(number)"), attr("m", "map(string)"),
		attr("wait", text, duration), attr("secret_wait", text, sensitive, duration), attr("keys", "map(number)", sensitive), attr("path", text, readPath),
		many("server", "name", attr("url", text)),
	)
	for name, src := range map[string]string{
		"secret as number":          `number = secret("s")`,
		"secret as bool":            `flag = secret("s")`,
		"secret in a list":          `list = [1, secret("s")]`,
		"secret as duration":        `wait = secret("s")`,
		"secret in a template":      `wait = "in ${secret("s")} seconds"`,
		"secret as index":           `m = { a = { x = 1 }[secret("s")] }`,
		"secret as attribute":       `number = { "${secret("s")}" = "no number" }[secret("s")]`,
		"secret as key":             `list = { "${secret("s")}" = [] }`,
		"secret as function's name": `m = { a = env(secret("s")) }`,
		"secret as file":            `m = { a = file(secret("s")) }`,
		"secret as secret":          `m = { a = secret(secret("s")) }`,
		"secret in arithmetic":      `number = secret("s") + 1`,
		"secret in a condition":     `number = secret("s") == 1 ? "x" : "y"`,
		"env in sensitive":          `secret_wait = env("BULKHEAD_TEST_KEY")`,
		"env as key in sensitive":   `keys = { "${env("BULKHEAD_TEST_KEY")}" = "x" }`,
		"env index in sensitive":    `key = {}[env("BULKHEAD_TEST_KEY")]`,
		"literal in sensitive":      `secret_wait = "secret-literal"`,
		"literal beside a fault":    "key = \"secret-literal\"\n number = \"x\"",
		"literal of wrong type":     `keys = { x = "secret-literal" }`,
		"literal then syntax":       `api_key = "secret-literal" "x`,
		"token then syntax":         "token = [\n\"secret-literal\"\n, }",
		"authorization header":      `m = { Authorization = "secret-literal" } + 1`,
	} {
		t.Run(name, func(t *testing.T) {
			path := project(t, "plugin \"p\" {\n config {\n  "+src+"\n }\n}\n", map[string]string{"s": fromSecret})
			c, diags := Load(path)
			shown := everywhere(t, c, diags)
			if !diags.HasErrors() {
				var e *Evaluated
				e, diags = c.Evaluate(c.Plugin("p"), schema)
				shown = everywhere(t, c, diags)
				if !diags.HasErrors() {
					t.Fatalf("no fault was found: %s", e.JSON)
				}
			}
			for _, secret := range []string{fromSecret, fromEnv, literal} {
				if strings.Contains(shown, secret) {
					t.Errorf("%s is shown:\n%s", secret, shown)
				}
			}
		})
	}
}

func TestPluginsDiagnosticsAreScrubbed(t *testing.T) {
	c, e, diags := evaluated(t, `
    key   = secret("s")
    plain = "x"
    lit   = "typed-right-in"`, body(attr("key", text), attr("plain", text), attr("lit", text, sensitive)), map[string]string{"s": `quo"ted-secret`})
	if len(diags) > 0 {
		t.Fatal(printed(t, c, diags))
	}
	at := []*pluginv1.PathStep{{Step: &pluginv1.PathStep_Attribute{Attribute: "lit"}}}
	diags = e.Locate([]*pluginv1.Diagnostic{{Summary: `key quo"ted-secret is bad`, Detail: fmt.Sprintf("got %q and typed-right-in", `quo"ted-secret`), Path: at}})
	shown := everywhere(t, c, diags) + fmt.Sprintf("%v %+v %#v", e, e, e) + c.Scrub(`log quo"ted-secret`)
	for _, secret := range []string{"ted-secret", "typed-right-in"} {
		if strings.Contains(shown, secret) {
			t.Errorf("%s is shown:\n%s", secret, shown)
		}
	}
	if !strings.Contains(string(e.JSON), `quo\"ted-secret`) || len(e.Sensitive) != 2 {
		t.Errorf("the plugin does not get it: %s %d", e.JSON, len(e.Sensitive))
	}
}

func TestTokensFormatHidden(t *testing.T) {
	c, diags := Load(project(t, "agent \"a\" {\n token = secret(\"a\")\n}\nplugin \"p\" {\n env = { K = secret(\"a\") }\n}\n", map[string]string{"a": "the-token-itself"}))
	if len(diags) > 0 {
		t.Fatal(printed(t, c, diags))
	}
	a, p := *c.Agents[0], *c.Plugins[0]
	a.Source, p.Source = Source{}, Source{}
	for _, s := range []string{fmt.Sprintf("%v %+v %#v", a, a, a), fmt.Sprintf("%v %+v %#v", p, p, p), fmt.Sprint(a.Token)} {
		if strings.Contains(s, "the-token-itself") {
			t.Errorf("shown: %s", s)
		}
	}
	if string(a.Token) != "the-token-itself" || p.Env.List()[0] != "K=the-token-itself" {
		t.Error("the values are wrong")
	}
}

func TestSecretFiles(t *testing.T) {
	src := "agent \"a\" {\n  token = secret(\"a\")\n}\n"
	for name, c := range map[string]struct {
		prepare func(file string)
		want    string
	}{
		"absent":   {func(f string) { must(t, os.Remove(f)) }, "does not exist"},
		"open":     {func(f string) { must(t, os.Chmod(f, 0o640)) }, "readable by others (mode 0640)"},
		"empty":    {func(f string) { must(t, os.WriteFile(f, []byte("\n"), 0o600)) }, "is empty"},
		"folder":   {func(f string) { must(t, os.Remove(f)); must(t, os.Mkdir(f, 0o700)) }, "not a regular file"},
		"too big":  {func(f string) { must(t, os.WriteFile(f, make([]byte, maxSecret+1), 0o600)) }, "larger than 64 KiB"},
		"binary":   {func(f string) { must(t, os.WriteFile(f, []byte{0xff, 0xfe}, 0o600)) }, "not UTF-8"},
		"dangling": {func(f string) { must(t, os.Remove(f)); must(t, os.Symlink("nowhere", f)) }, "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			path := project(t, src, map[string]string{"a": "value"})
			c.prepare(filepath.Join(filepath.Dir(path), "data", "secrets", "a"))
			cfg, diags := Load(path)
			if len(diags) != 1 || CodeOf(diags[0]) != fault.ConfigSecret || !strings.Contains(line(diags[0]), c.want) || diags[0].Subject.Start.Line != 2 {
				t.Fatal(printed(t, cfg, diags))
			}
			var f *fault.Error
			if !errors.As(Err(diags), &f) || f.Ref != fault.ConfigSecret {
				t.Errorf("Err = %v", Err(diags))
			}
		})
	}
	for _, name := range []string{"../host.key", "/etc/passwd", "", "a/b", ".hidden"} {
		cfg, diags := Load(project(t, fmt.Sprintf("agent \"a\" {\n  token = secret(%q)\n}\n", name), nil))
		if len(diags) != 1 || CodeOf(diags[0]) != fault.ConfigSecret {
			t.Errorf("%q: %s", name, printed(t, cfg, diags))
		}
	}
	cfg, diags := Load(project(t, "host {\n  log_level = secret(\"a\")\n}\n", map[string]string{"a": "info"}))
	if len(diags) != 1 || CodeOf(diags[0]) != fault.ConfigSecret {
		t.Error(printed(t, cfg, diags))
	}
}
