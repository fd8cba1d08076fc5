package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if got != string(want) {
		t.Errorf("%s:\n%s\nwant:\n%s", name, got, want)
	}
}

func TestFourFaultsAtOnce(t *testing.T) {
	c, diags := Load(project(t, `host {
  data_dri = "data"
}

plugin "web" {
  limits {
    memory       = "512"
    call_timeout = env("BULKHEAD_TEST_UNSET")
  }
  sandbox { profile = "strikt" }
}
`, nil))
	golden(t, "four.golden", printed(t, c, diags))
	if len(diags) != 4 {
		t.Errorf("%d faults", len(diags))
	}
	golden(t, "four.json.golden", strings.ReplaceAll(string(JSON(diags)), c.Dir+"/", "")+"\n")
	var b bytes.Buffer
	must(t, Write(&b, diags[:1], c.Sources(), true))
	if !strings.HasPrefix(b.String(), "\x1b[31m") || !strings.Contains(b.String(), "\x1b[0m\n") {
		t.Errorf("no colour: %q", b.String())
	}
	got := Err(diags).Error()
	for _, place := range []string{":2,3: ", ":7,20: ", ":8,20: ", ":10,23: "} {
		if !strings.Contains(got, place) || strings.Count(got, "\n") != 3 {
			t.Errorf("Err does not tell what is at %s:\n%s", place, got)
		}
	}
	many := Err(slices.Repeat(diags, 100)).Error()
	if !strings.HasSuffix(many, "\n(and 380 more)") || len(many) > maxFaultText+200 {
		t.Errorf("of 400 faults Err tells, in %d bytes:\n%s", len(many), many)
	}
	if Err(nil) != nil {
		t.Error("no faults are an error")
	}
}

func TestEveryFaultHasItsPlace(t *testing.T) {
	for name, c := range map[string]struct{ src, want string }{
		"same plugin twice":     {"plugin \"a\" {}\nplugin \"a\" {}", `config.hcl:2,1: second plugin "a"; the first is at config.hcl:1,1 (BH3003)`},
		"host twice":            {"host {}\nhost {}", `config.hcl:2,1: second "host" block; only one may stand here; the first is at config.hcl:1,1 (BH3003)`},
		"plugin without name":   {"plugin {}", `config.hcl:1,1: block "plugin" takes 1 label(s), not 0; write plugin "NAME" { … } (BH3003)`},
		"host with name":        {"host \"x\" {}", `config.hcl:1,6: block "host" takes 0 label(s), not 1; write host { … } (BH3003)`},
		"bad plugin name":       {"plugin \"a b\" {}", `config.hcl:1,1: "a b" is no name for a plugin; letters, digits, dash and underscore, beginning with a letter or digit (BH3003)`},
		"bad agent name":        {"agent \"\" {}", `config.hcl:1,1: "" is no name for an agent; letters, digits, dash and underscore, beginning with a letter or digit (BH3003)`},
		"unknown block":         {"plugins \"a\" {}", `config.hcl:1,1: unknown block "plugins"; did you mean "plugin"? (BH3002)`},
		"unknown key":           {"results {\n  treshold = 1\n}", `config.hcl:2,3: unknown key "treshold"; did you mean "threshold"? (BH3002)`},
		"block as key":          {"host = 1", `config.hcl:1,1: host is a block; write host { … } without the equals sign (BH3002)`},
		"key as block":          {"host {\n  autoload {}\n}", `config.hcl:2,3: autoload is not a block; write autoload = … (BH3002)`},
		"bad tier":              {"policy {\n  tier \"high\" {}\n}", `config.hcl:2,3: there is no tier "high"; one of standard, elevated, restricted (BH3003)`},
		"bad rule tier":         {"policy {\n  rule \"r\" {\n    tools = [\"x\"]\n    tier = \"restrictd\"\n  }\n}", `config.hcl:4,12: tier can't be "restrictd"; did you mean "restricted"? (one of standard, elevated, restricted) (BH3003)`},
		"tool in two tiers":     {"policy {\n  tier \"standard\" { tools = [\"x\"] }\n  tier \"elevated\" { tools = [\"x\"] }\n}", `config.hcl:3,29: tool "x" is in two tiers; standard and elevated (BH3003)`},
		"empty risk":            {"policy {\n  tier \"standard\" { accept_risk = \" \" }\n}", `config.hcl:2,35: accept_risk is empty; write the reason; it goes into the audit trail (BH3003)`},
		"bad network":           {"plugin \"a\" {\n  sandbox { network = \"some\" }\n}", `config.hcl:2,23: network can't be "some"; did you mean "none"? (one of none, all) (BH3003)`},
		"bad grant":             {"plugin \"a\" {\n  grants = [\"share\"]\n}", `config.hcl:2,12: unknown grant "share"; did you mean "shared"? grants are tool:NAME, tool:*, shared, turns, runs, session (BH3003)`},
		"bad digest":            {"plugin \"a\" {\n  sha256 = \"abc\"\n}", `config.hcl:2,12: sha256 is not a SHA-256; 64 hexadecimal digits (BH3003)`},
		"owner is nobody":       {"plugin \"a\" {\n  owner = \"x\"\n}", `config.hcl:2,11: owner of plugin "a" is no agent; add agent "x" { … } (BH3003)`},
		"long call":             {"plugin \"a\" {\n  limits { call_timeout = \"1h\" }\n}", `config.hcl:2,27: call_timeout is too long; at most 900s; long work belongs into background tasks (BH3003)`},
		"negative duration":     {"session {\n  idle = \"-5m\"\n}", `config.hcl:2,10: "-5m" is not acceptable for "idle"; a duration can't be negative (BH3003)`},
		"not a whole number":    {"session {\n  list_budget = 1.5\n}", `config.hcl:2,17: "list_budget" is not a whole number that fits; write a whole number from 0 up (BH3003)`},
		"zero":                  {"results {\n  threshold = 0\n}", `config.hcl:2,15: threshold must be more than 0 (BH3003)`},
		"missing":               {"results {\n  model \"x\" {}\n}", `config.hcl:2,3: "threshold" is missing; it is required here (BH3003)`},
		"open to the world":     {"frontend \"http\" {\n  address = \":7411\"\n}", `config.hcl:2,13: an address others can reach needs agents with tokens; add agent "NAME" { token = secret("NAME") }, or listen on 127.0.0.1 (BH3003)`},
		"an empty address":      {"frontend \"http\" {\n  address = \"\"\n}", `config.hcl:2,13: "" is no address; write host:port, such as "127.0.0.1:7411" (BH3003)`},
		"an empty data_dir":     {"host {\n  data_dir = \"\"\n}", `config.hcl:2,14: data_dir can't be empty (BH3003)`},
		"no address":            {"frontend \"http\" {\n  address = \"7411\"\n}", `config.hcl:2,13: "7411" is no address; write host:port, such as "127.0.0.1:7411" (BH3003)`},
		"unknown frontend":      {"frontend \"nats\" {}", `config.hcl:1,1: unknown frontend "nats"; the one there is is "http" (BH3002)`},
		"default with token":    {"agent \"default\" {\n  token = \"xyz-xyz\"\n}", `config.hcl:2,11: agent "default" takes no token; it is whoever comes without one; give the token to another agent (BH3003)`},
		"default approves":      {"agent \"default\" {\n  approver = true\n}", `config.hcl:2,14: agent "default" can't approve; whoever comes without a token could approve its own calls (BH3003)`},
		"operator":              {"agent \"operator\" {}", `config.hcl:1,1: agent "operator" is built in; it is the host's own command line; choose another name (BH3003)`},
		"same token":            {"agent \"a\" {\n  token = \"xyz-xyz-xyz-xyz-xyz\"\n}\nagent \"b\" {\n  token = \"xyz-xyz-xyz-xyz-xyz\"\n}", `config.hcl:5,11: agents "a" and "b" have the same token; a token must tell who calls (BH3003)`},
		"short token":           {"agent \"a\" {\n  token = \"fifteen-letters\"\n}", `config.hcl:2,11: token of agent "a" is too short; at least 16 characters that nobody can guess, such as those of ` + "`openssl rand -hex 32` (BH3003)"},
		"empty token":           {"agent \"a\" {\n  token = \"\"\n}", `config.hcl:2,11: token of agent "a" is empty; leave the line out, or give it a value (BH3003)`},
		"unknown profile":       {"profile \"reviewer\" {}\nagent \"a\" {\n  profile = \"reviwer\"\n}", `config.hcl:3,13: profile can't be "reviwer"; did you mean "reviewer"? (one of main, subagent, scheduled, a2a_synthesis, reviewer) (BH3003)`},
		"bad model tier":        {"agent \"a\" {\n  model_tier = \"standard\"\n}", `config.hcl:2,16: model_tier can't be "standard"; one of low, balanced, high (BH3003)`},
		"bare variable":         {"host {\n  data_dir = \"${HOME}/data\"\n}", `config.hcl:2,17: unknown name HOME; there are no variables; for the environment write env("HOME") (BH3003)`},
		"bare word":             {"host {\n  log_level = debug\n}", `config.hcl:2,15: unknown name debug; write "debug" if the text is meant, or env("debug") for the environment (BH3003)`},
		"unset":                 {"host {\n  log_level = env(\"BULKHEAD_TEST_UNSET\")\n}", `config.hcl:2,15: environment variable BULKHEAD_TEST_UNSET is not set; set it, or give a default: env("BULKHEAD_TEST_UNSET", "") (BH3003)`},
		"wrong type":            {"host {\n  autoload = \"maybe\"\n}", `config.hcl:2,14: wrong type for "autoload"; a bool is required (BH3003)`},
		"syntax":                {"host {", `config.hcl:1,6: Unclosed configuration block; There is no closing brace for this block before the end of the file. This may be caused by incorrect brace nesting elsewhere in this file (BH3001)`},
		"built-in profile":      {"profile \"main\" {}", `config.hcl:1,1: profile "main" is built in; choose another name (BH3003)`},
		"late reply":            {"policy {\n  approval_reply_after = \"5m\"\n}", `config.hcl:2,26: approval_reply_after is too long; at most 45s, for clients give up after a minute (BH3003)`},
		"number out of range":   {"results {\n  threshold = 1e999999999\n}", `config.hcl:2,15: the number is out of range (BH3001)`},
		"too large for an int":  {"results {\n  threshold = 99999999999999999999\n}", `config.hcl:2,15: "threshold" is not a whole number that fits; write a whole number from 0 up (BH3003)`},
		"profile none, network": {"plugin \"a\" {\n  sandbox {\n    profile = \"none\"\n    network = \"none\"\n  }\n}", `config.hcl:4,15: network = "none" can't be kept by profile "none"; use profile "strict" or "launcher" (BH3003)`},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, diags := Load(project(t, c.src+"\n", nil))
			first, _, _ := strings.Cut(printed(t, cfg, diags), "\n")
			if first != c.want {
				t.Errorf("got\n%s\nwant\n%s", first, c.want)
			}
			if len(diags) != 1 {
				t.Errorf("%d faults:\n%s", len(diags), printed(t, cfg, diags))
			}
		})
	}
}

func TestLoweredTiersNeedAReason(t *testing.T) {
	c, diags := Load(project(t, `plugin "a" {
  tools "danger" { tier = "standard" }
  tools "known" {
    tier        = "elevated"
    accept_risk = "only on a test machine"
  }
  tools "harmless" { tier = "standard" }
}
policy {
  tier "elevated" { tools = ["danger"] }
  tier "restricted" { tools = ["known"] }
}
`, nil))
	if len(diags) > 0 {
		t.Fatal(printed(t, c, diags))
	}
	diags = c.CheckTiers(func(_, tool string) string {
		if tool == "harmless" {
			return "elevated"
		}
		return "restricted"
	})
	golden(t, "tiers.golden", printed(t, c, diags))
}

func TestOpenAddressWithTokens(t *testing.T) {
	c, diags := Load(project(t, "frontend \"http\" {\n  address = \"0.0.0.0:7411\"\n}\nagent \"a\" {\n  token = secret(\"a\")\n}\n", map[string]string{"a": "token-token-token"}))
	if len(diags) > 0 {
		t.Fatal(printed(t, c, diags))
	}
}

func TestLimitsOfTheFile(t *testing.T) {
	for name, src := range map[string]string{
		"large":       strings.Repeat("# comment\n", maxFile/10+1),
		"deep lists":  "x = " + strings.Repeat("[", 1_000_00),
		"deep blocks": strings.Repeat("host {\n", 100_000),
		"deep parens": "x = " + strings.Repeat("(", 100_000),
		"templates":   "x = " + strings.Repeat(`"${`, 100_000),
		"minus":       "x = " + strings.Repeat("-", 500_000) + "1",
		"bang":        "x = " + strings.Repeat("!", 500_000) + "true",
		"conditional": "x = " + strings.Repeat("a ? b : ", 100_000) + "1",
		"attributes":  "x = a" + strings.Repeat(".b", 100_000),
		"not text":    "x = \xff\xfe\x00",
	} {
		_, diags := Parse("config.hcl", []byte(src))
		if !diags.HasErrors() || CodeOf(diags[0]) != fault.ConfigSyntax {
			t.Errorf("%s: %v", name, diags)
		}
	}
}

func TestFindAndDefaults(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "xdg"))
	path, err := Find("")
	must(t, err)
	if path != "" {
		t.Fatalf("found %q", path)
	}
	c, diags := Load(path)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	here, err := filepath.EvalSymlinks(dir)
	must(t, err)
	if got, _ := filepath.EvalSymlinks(c.Dir); got != here || c.Host.DataDir != filepath.Join(c.Dir, "data") || c.HTTP.Address != DefaultAddress || !c.Host.Autoload {
		t.Errorf("defaults: %+v", c.Host)
	}
	user := filepath.Join(dir, "xdg", "bulkhead", "config.hcl")
	must(t, os.MkdirAll(filepath.Dir(user), 0o755))
	must(t, os.WriteFile(user, nil, 0o644))
	if path, err = Find(""); err != nil || path != user {
		t.Errorf("found %q %v", path, err)
	}
	must(t, os.WriteFile("config.hcl", nil, 0o644))
	if path, err = Find(""); err != nil || path != "config.hcl" {
		t.Errorf("found %q %v", path, err)
	}
	if _, err = Find("absent.hcl"); fault.From(err).Ref != fault.ConfigMissing {
		t.Errorf("named but absent: %v", err)
	}
	for _, bad := range []string{"absent.hcl", dir} {
		if _, diags := Load(bad); len(diags) != 1 || CodeOf(diags[0]) != fault.ConfigMissing {
			t.Errorf("%s: %v", bad, diags)
		}
	}
}

func TestQuantities(t *testing.T) {
	for in, want := range map[string]int64{"0": 0, "512MiB": 512 << 20, "64 KiB": 64 << 10, "1GB": 1e9, "100B": 100, "1.5MiB": 3 << 19} {
		if got, err := ParseSize(in); err != nil || got != want {
			t.Errorf("%q = %d %v", in, got, err)
		}
	}
	for _, bad := range []string{"", "512", "MiB", "-1MiB", "1 parsec", "99999999999TiB", "1e3MiB"} {
		if got, err := ParseSize(bad); err == nil {
			t.Errorf("%q = %d", bad, got)
		}
	}
	for _, bad := range []string{"", "30", "-1s", "1 fortnight", "s"} {
		if got, err := ParseDuration(bad); err == nil {
			t.Errorf("%q = %v", bad, got)
		}
	}
}

func FuzzLoad(f *testing.F) {
	if sample, err := os.ReadFile("testdata/contract.hcl"); err == nil {
		f.Add(sample)
	}
	f.Add([]byte("plugin \"p\" {\n config {\n server \"a\" { url = env(\"X\", \"\") }\n }\n}\n"))
	f.Add([]byte("plugin \"p\" {\n config {\n wrapper_mode = <<EOT\n${1 + \"2\"}\nEOT\n }\n}\n"))
	f.Add([]byte("plugin \"p\" {\n config {\n server \"s\" { arg_guard \"g\" { options = [for x in [1,2]: { a = x }][*].a } }\n }\n}"))
	f.Fuzz(func(t *testing.T, src []byte) {
		c, diags := Parse(filepath.Join(t.TempDir(), "config.hcl"), src)
		check := func(diags hcl.Diagnostics) {
			var b bytes.Buffer
			if err := Write(&b, diags, c.Sources(), false); err != nil {
				t.Fatal(err)
			}
			if !json.Valid(JSON(diags)) {
				t.Fatal("the diagnostics are no JSON")
			}
			for _, d := range diags {
				if CodeOf(d) == "" {
					t.Fatalf("no code: %v", d)
				}
			}
		}
		check(diags)
		if diags.HasErrors() {
			return
		}
		for _, p := range c.Plugins {
			e, diags := c.Evaluate(p, mcpSchema)
			check(diags)
			if (e == nil) != diags.HasErrors() {
				t.Fatal("evaluated and refused at once")
			}
			if e != nil && !json.Valid(e.JSON) {
				t.Fatalf("no JSON: %s", e.JSON)
			}
		}
	})
}

// Where the state is can be told of a config that is no use for anything else.
func TestDataDirOfAFaultyConfig(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a wrong value":         {"host {\n  data_dir = \"elsewhere\"\n  log_level = \"loud\"\n}\nagent \"x\" { grups = [] }\n", "elsewhere"},
		"not closed, after":     {"host {\n  data_dir = \"elsewhere\"\n}\nplugin \"x\" {\n", "elsewhere"},
		"not closed, before":    {"plugin \"x\" {\nhost {\n  data_dir = \"elsewhere\"\n}\n", "elsewhere"},
		"nonsense before":       {"= = =\nhost {\n  data_dir = \"elsewhere\"\n}\n", "elsewhere"},
		"nonsense, no data_dir": {"= = =\n", "data"},
		"not UTF-8":             {"host {\n  data_dir = \"elsewhere\"\n}\nagent \"\xff\" {}\n", "elsewhere"},
	} {
		cfg, diags := Parse("/etc/x/config.hcl", []byte(c.text))
		if !diags.HasErrors() || cfg.Host.DataDir != "/etc/x/"+c.want {
			t.Errorf("%s: data_dir %q, faults %v", name, cfg.Host.DataDir, diags)
		}
	}
}
