package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"
)

// project lays out a folder with a config file and secrets.
func project(t *testing.T, src string, secrets map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "config.hcl")
	must(t, os.WriteFile(path, []byte(src), 0o644))
	must(t, os.MkdirAll(filepath.Join(dir, "data", "secrets"), 0o700))
	for name, value := range secrets {
		must(t, os.WriteFile(filepath.Join(dir, "data", "secrets", name), []byte(value), 0o600))
	}
	return path
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// printed is what a person would read, with the folder taken out.
func printed(t *testing.T, c *Config, diags hcl.Diagnostics) string {
	t.Helper()
	var b strings.Builder
	must(t, Write(&b, diags, c.Sources(), false))
	return strings.ReplaceAll(b.String(), c.Dir+string(filepath.Separator), "")
}

func contract(t *testing.T) string {
	t.Helper()
	src, err := os.ReadFile("testdata/contract.hcl")
	must(t, err)
	return project(t, string(src), map[string]string{"me": "token-of-me-1234\n", "researcher": "token-of-researcher"})
}

func TestContractSampleLoads(t *testing.T) {
	t.Setenv("BRAVE_API_KEY", "brave-key")
	path := contract(t)
	c, diags := Load(path)
	if len(diags) > 0 {
		t.Fatal(printed(t, c, diags))
	}
	dir := filepath.Dir(path)
	web := c.Plugin("web")
	if web == nil || c.Plugin("mcp") == nil || len(c.Plugins) != 2 {
		t.Fatalf("plugins: %v", c.Plugins)
	}
	check := func(what string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s = %v, want %v", what, got, want)
		}
	}
	check("data_dir", c.Host.DataDir, filepath.Join(dir, "data"))
	check("plugins", c.Host.PluginDir, filepath.Join(dir, "bin/plugins"))
	check("autoload", c.Host.Autoload, true)
	check("address", c.HTTP.Address, "127.0.0.1:7411")
	check("memory", web.Limits.Memory, int64(512<<20))
	check("processes", web.Limits.Processes, 64)
	check("call_timeout", web.Limits.CallTimeout, time.Minute)
	check("profile", web.Sandbox.Profile, "strict")
	check("network", web.Sandbox.Network, "all")
	check("queue default", c.Plugin("mcp").Limits.Queue, DefaultQueue)
	check("granted", web.Granted("tool:browser_render"), true)
	check("not granted", web.Granted("tool:llm_generate"), false)
	check("binary", c.BinaryPath(web), filepath.Join(dir, "bin/plugins/bulkhead-plugin-web"))
	check("env", web.Env["HTTPS_PROXY"], os.Getenv("HTTPS_PROXY"))
	check("token", string(c.Agent("me").Token), "token-of-me-1234")
	check("approver", c.Agent("me").Approver, true)
	check("agent profile", c.Agent("me").Profile, "main")
	check("groups", strings.Join(c.Agent("researcher").Groups, ","), "research,mcp")
	check("threshold", c.Results.For("openrouter/deepseek-v4"), 32000)
	check("threshold else", c.Results.For("openai/gpt"), 64000)
	check("idle", c.Session.Idle, 12*time.Hour)
	check("tier", c.Policy.Tiers[0].ApprovalTimeout, 10*time.Minute)
	check("rule", c.Policy.Rules[0].When, "args.command.contains('prod')")
	check("reply after", c.Policy.ApprovalReplyAfter, 45*time.Second)
	check("team", c.Teams[0].Workers[0], "researcher")
	check("expansion", c.Profiles[0].Expansion[0], "run_tests")
}
