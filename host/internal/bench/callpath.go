package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bulkhead-dev/bulkhead/host/internal/call"
	"github.com/bulkhead-dev/bulkhead/host/internal/config"
	"github.com/bulkhead-dev/bulkhead/host/internal/host"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

const (
	perRound = 1500                   // calls one after the other in a round
	burst    = 700 * time.Millisecond // of a round with many callers
	callers  = 64
)

// payload is 128 bytes of JSON.
var payload = []byte(`{"text":"` + strings.Repeat("x", 117) + `"}`)

type binaries struct{ host, fixture, bridge string }

// build makes the host, the fixture plugin and the bridge as they ship: without cgo, stripped.
func build(ctx context.Context, dir string) (binaries, error) {
	b := binaries{filepath.Join(dir, "bulkhead"), filepath.Join(dir, "bulkhead-plugin-fixture"), filepath.Join(dir, "bulkhead-plugin-mcp")}
	for out, pkg := range map[string]string{b.host: "./host", b.fixture: "./host/internal/e2e/fixture", b.bridge: "./plugins/mcp"} {
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			return b, fmt.Errorf("build %s: %w\n%s", pkg, err, text)
		}
	}
	return b, nil
}

// world writes a config with n instances of the fixture.
func world(dir string, b binaries, n int) (string, error) {
	var hcl strings.Builder
	fmt.Fprintf(&hcl, "host {\n  data_dir = %q\n  plugins  = %q\n  shared   = %q\n}\nfrontend \"http\" {\n  address = \"127.0.0.1:0\"\n}\n", filepath.Join(dir, "d"), plugins(dir), filepath.Join(dir, "s"))
	for i := range n {
		fmt.Fprintf(&hcl, "plugin \"p%d\" {\n  binary = %q\n  env    = { FIXTURE_PREFIX = \"p%d\" }\n  limits {\n    calls = 256\n    queue = 512\n  }\n}\n", i, b.fixture, i)
	}
	if err := os.MkdirAll(plugins(dir), 0o755); err != nil {
		return "", err
	}
	file := filepath.Join(dir, "config.hcl")
	return file, os.WriteFile(file, []byte(hcl.String()), 0o600)
}

func startHost(ctx context.Context, dir string, b binaries, n int) (*host.Host, error) {
	file, err := world(dir, b, n)
	if err != nil {
		return nil, err
	}
	return loadHost(ctx, file, true)
}

// loadHost starts a host in this process.
func loadHost(ctx context.Context, file string, private bool) (*host.Host, error) {
	cfg, diags := config.Load(file)
	if diags.HasErrors() {
		return nil, diags
	}
	h, err := host.Start(ctx, host.Options{Config: cfg, Version: "bench", Log: hclog.NewNullLogger(), Private: private})
	if err != nil {
		return nil, err
	}
	return h, h.Wait(ctx)
}

// callPath compares a call through the whole pipeline, audit, policy and metrics
// on, with a plain unary RPC to another process under the same kind of credentials.
func callPath(ctx context.Context, dir string, b binaries, rounds int) ([]figure, error) {
	h, err := startHost(ctx, dir, b, 1)
	if err != nil {
		return nil, err
	}
	defer h.Close(ctx)
	cert := filepath.Join(dir, "pair.pem")
	if err := certificate(cert); err != nil {
		return nil, err
	}
	secure, end, err := startRaw(dir, cert)
	if err != nil {
		return nil, err
	}
	defer end()
	plain, endPlain, err := startRaw(dir, "-")
	if err != nil {
		return nil, err
	}
	defer endPlain()

	agent, err := h.API.Policy.Agent("default")
	if err != nil {
		return nil, err
	}
	s, err := h.API.Sessions.Open(ctx, agent, "bench")
	if err != nil {
		return nil, err
	}
	through := func() error {
		r := h.API.Pipeline.Call(ctx, call.Request{Caller: call.Caller{Agent: agent, Session: s, ModelTier: "balanced", Door: "bench"},
			Tool: "p0_echo", Arguments: payload})
		if r.Result.IsError {
			return fmt.Errorf("the call failed: %v", r.Result.Error)
		}
		return nil
	}
	rpc := func(c pluginv1.PluginServiceClient) func() error {
		return func() error {
			_, err := c.Validate(ctx, &pluginv1.ValidateRequest{ConfigJson: payload})
			return err
		}
	}
	var p50, p99, rate, tls []float64
	for range rounds + 1 {
		direct, _, err := oneByOne(rpc(secure))
		if err != nil {
			return nil, err
		}
		piped, pipedTail, err := oneByOne(through)
		if err != nil {
			return nil, err
		}
		open, _, err := oneByOne(rpc(plain))
		if err != nil {
			return nil, err
		}
		directRate, err := many(callers, rpc(secure))
		if err != nil {
			return nil, err
		}
		pipedRate, err := many(callers, through)
		if err != nil {
			return nil, err
		}
		p50 = append(p50, piped.Seconds()/direct.Seconds())
		p99 = append(p99, float64(pipedTail.Microseconds()))
		rate = append(rate, pipedRate/directRate)
		tls = append(tls, direct.Seconds()/open.Seconds())
	}
	// The first round warms up.
	return []figure{
		median("call_p50_vs_grpc", "×", 1.4, false, p50[1:]),
		median("calls_per_s_vs_grpc_64", "×", 0.5, true, rate[1:]),
		median("mtls_p50_vs_plain", "×", 0, false, tls[1:]),
		median("call_p99", "µs", 0, false, p99[1:]),
	}, nil
}

// oneByOne is the median and the 99th percentile of calls made one after another.
func oneByOne(f func() error) (p50, p99 time.Duration, err error) {
	took := make([]time.Duration, perRound)
	for i := range took {
		begin := time.Now()
		if err := f(); err != nil {
			return 0, 0, err
		}
		took[i] = time.Since(begin)
	}
	return quantile(took, 0.5), quantile(took, 0.99), nil
}
