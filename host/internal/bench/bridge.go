package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
)

const (
	bridgeServers = 20 // half of them over HTTP, half programs
	bareTools     = 25
	bridgeCallers = 16
	bridgeCalls   = 4000 // for the processor time of one
)

// serveBridge starts the built host with the bridge, whose server blocks are given,
// and waits until a tool is there. It
// gives the processes of the host and of the bridge.
func serveBridge(ctx context.Context, dir string, b binaries, servers, tool string) (s api.Status, pid, bridge int, end func(), err error) {
	file, err := world(dir, b, 0)
	if err != nil {
		return s, 0, 0, nil, err
	}
	raw, err := os.ReadFile(file)
	if err == nil {
		raw = fmt.Appendf(raw, "plugin \"mcp\" {\n  binary = %q\n  grants = [\"shared\"]\n  limits {\n    calls = 256\n    queue = 512\n  }\n  config {\n%s  }\n}\n", b.bridge, servers)
		err = os.WriteFile(file, raw, 0o600)
	}
	if err != nil {
		return s, 0, 0, nil, err
	}
	s, pid, end, err = serve(ctx, b.host, dir, file, 1)
	if err != nil {
		return s, 0, 0, nil, err
	}
	for {
		if exec.CommandContext(ctx, b.host, "tools", tool, "--config", file).Run() == nil {
			if bridge, err = processOf(s.Plugins[0].PID, b.bridge); err != nil {
				end()
			}
			return s, pid, bridge, end, err
		}
		select {
		case <-ctx.Done():
			end()
			return s, 0, 0, nil, fmt.Errorf("the tool %s did not come: %w", tool, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// bridged compares a call of a server's tool by way of host and bridge with the
// same call of the server itself, and adds up what host and bridge compute for
// one, with all that guards a call by default.
func bridged(ctx context.Context, dir string, b binaries, rounds int) ([]figure, error) {
	url, endBare, err := startBare()
	if err != nil {
		return nil, err
	}
	defer endBare()
	s, pid, bridge, end, err := serveBridge(ctx, dir, b, fmt.Sprintf("    server \"bare\" {\n      url = %q\n    }\n", url+"/mcp"), "bare__echo")
	if err != nil {
		return nil, err
	}
	defer end()
	door, err := httpDoor(s)
	if err != nil {
		return nil, err
	}
	// Both in the newest revision, which is what the bridge finds and speaks.
	direct, ours := newModern(url, "echo"), newModern(door, "bare__echo")
	toServer := func() error { _, err := direct.do(ctx, modernCall("echo", string(payload)), "xxx"); return err }
	through := func() error { _, err := ours.do(ctx, modernCall("bare__echo", string(payload)), "xxx"); return err }
	var p50, rate, cpu, loaded []float64
	for range rounds + 1 {
		a, _, err := oneByOne(toServer)
		if err != nil {
			return nil, err
		}
		c, _, err := oneByOne(through)
		if err != nil {
			return nil, err
		}
		x, err := many(bridgeCallers, toServer)
		if err != nil {
			return nil, err
		}
		idle, err := busy(pid, bridge)
		if err != nil {
			return nil, err
		}
		begun, calls := time.Now(), 0.0
		y, err := many(bridgeCallers, through)
		if err != nil {
			return nil, err
		}
		calls = y * time.Since(begun).Seconds()
		full, err := busy(pid, bridge)
		if err != nil {
			return nil, err
		}
		loaded = append(loaded, (full-idle).Seconds()*1000/calls)
		p50, rate = append(p50, c.Seconds()/a.Seconds()), append(rate, y/x)
		before, err := busy(pid, bridge)
		if err != nil {
			return nil, err
		}
		for range bridgeCalls {
			if err := through(); err != nil {
				return nil, err
			}
		}
		after, err := busy(pid, bridge)
		if err != nil {
			return nil, err
		}
		cpu = append(cpu, (after-before).Seconds()*1000/bridgeCalls)
	}
	return []figure{
		median("bridged_call_p50_vs_direct", "×", 2.8, false, p50[1:]),
		median("bridged_calls_per_s_vs_direct_16", "×", 0.26, true, rate[1:]),
		median("bridged_cpu_per_call", "ms", 0.5, false, cpu[1:]),
		median("bridged_cpu_per_call_16", "ms", 0, false, loaded[1:]),
	}, nil
}

// newModern is a client of the newest revision, in which every call stands alone,
// for calls of one tool.
func newModern(url, tool string) *mcpClient {
	c := &mcpClient{url: url + "/mcp", http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}}, headers: http.Header{}}
	for k, v := range mcp.StandardHeaders(mcp.LATEST_PROTOCOL_VERSION, mcp.MethodToolsCall, json.RawMessage(`{"name":"`+tool+`"}`)) {
		c.headers.Set(k, v)
	}
	c.headers.Set("MCP-Protocol-Version", mcp.LATEST_PROTOCOL_VERSION)
	return c
}

var modernMeta = `{"` + mcp.MetaKeyProtocolVersion + `":"` + mcp.LATEST_PROTOCOL_VERSION + `","` + mcp.MetaKeyClientCapabilities + `":{},"` + mcp.MetaKeyClientInfo + `":{"name":"bench","version":"1"}}`

func modernCall(tool, arguments string) string {
	return `{"jsonrpc":"2.0","id":` + strconv.FormatInt(requestIDs.Add(1), 10) + `,"method":"tools/call","params":{"_meta":` + modernMeta + `,"name":"` + tool + `","arguments":` + arguments + `}}`
}

// busy is the processor time of processes so far, from the kernel's own count.
func busy(pids ...int) (time.Duration, error) {
	const tick = time.Second / 100 // USER_HZ
	var all time.Duration
	for _, pid := range pids {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, err
		}
		_, rest, ok := bytes.Cut(raw, []byte(") "))
		f := strings.Fields(string(rest))
		if !ok || len(f) < 13 {
			return 0, fmt.Errorf("/proc/%d/stat can't be read", pid)
		}
		for _, field := range f[11:13] { // utime and stime
			n, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return 0, err
			}
			all += time.Duration(n) * tick
		}
	}
	return all, nil
}

// bridgeFootprint is the memory of a bridge with many servers, without these.
func bridgeFootprint(ctx context.Context, dir string, b binaries, _ int) ([]figure, error) {
	url, endBare, err := startBare()
	if err != nil {
		return nil, err
	}
	defer endBare()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var servers strings.Builder
	for i := range bridgeServers {
		if i%2 == 0 {
			fmt.Fprintf(&servers, "    server \"s%d\" {\n      url = \"%s/%d/mcp\"\n    }\n", i, url, i)
		} else {
			fmt.Fprintf(&servers, "    server \"s%d\" {\n      command = [%q, %q, \"stdio\"]\n    }\n", i, self, bareArg)
		}
	}
	s, _, bridge, end, err := serveBridge(ctx, dir, b, servers.String(), "s0__tool_0")
	if err != nil {
		return nil, err
	}
	defer end()
	// Each server is called, so that all is connected and loaded, then rest.
	door, err := httpDoor(s)
	if err != nil {
		return nil, err
	}
	client, err := newMCP(ctx, door, "")
	if err != nil {
		return nil, err
	}
	for i := range bridgeServers {
		arguments := fmt.Sprintf(`{"name":"s%d__tool_%d","arguments":%s}`, i, bareTools-1, payload)
		for {
			if _, err = client.do(ctx, toolCall("call_tool", arguments), "xxx"); err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return nil, fmt.Errorf("server s%d: %w", i, err)
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	var rss, anon []float64
	for range 7 {
		select {
		case <-time.After(500 * time.Millisecond): // samples over time, not a wait for something
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		m, err := memory(bridge)
		if err != nil {
			return nil, err
		}
		rss, anon = append(rss, m["VmRSS"]), append(anon, m["RssAnon"])
	}
	return []figure{
		median("bridge_20_servers_rss", "MiB", 60, false, rss),
		median("bridge_20_servers_rss_anon", "MiB", 0, false, anon),
	}, nil
}
