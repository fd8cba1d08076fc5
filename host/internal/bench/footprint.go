package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/call"
	"github.com/bulkhead-dev/bulkhead/host/internal/sandbox"
	"github.com/bulkhead-dev/bulkhead/host/internal/supervise"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// instant is a plugin that costs nothing, so that only the pipeline is measured.
type instant struct{ result *pluginv1.Result }

func (i instant) Invoke(context.Context, string, bool, *pluginv1.InvokeRequest, func(*pluginv1.InvokeEvent)) (*pluginv1.Result, supervise.Dispatch, error) {
	return i.result, supervise.Dispatch{Sent: true}, nil
}

// pipelineCPU is the processor time of a call in the host without the RPC: all
// stages, and the audit writer behind them.
func pipelineCPU(ctx context.Context, dir string, b binaries, rounds int) ([]figure, error) {
	h, err := startHost(ctx, dir, b, 1)
	if err != nil {
		return nil, err
	}
	defer h.Close(ctx)
	agent, err := h.API.Policy.Agent("default")
	if err != nil {
		return nil, err
	}
	s, err := h.API.Sessions.Open(ctx, agent, "bench")
	if err != nil {
		return nil, err
	}
	real := h.API.Pipeline.Plugins
	h.API.Pipeline.Plugins = instant{call.Text(string(payload))}
	defer func() { h.API.Pipeline.Plugins = real }()
	const calls = 20000
	var cpu []float64
	for range rounds {
		runtime.GC()
		before := cpuTime()
		for range calls {
			r := h.API.Pipeline.Call(ctx, call.Request{Caller: call.Caller{Agent: agent, Session: s, ModelTier: "balanced", Door: "bench"},
				Tool: "p0_echo", Arguments: payload})
			if r.Result.IsError {
				return nil, fmt.Errorf("the call failed: %v", r.Result.Error)
			}
		}
		if err := h.API.Store.AuditFlush(ctx); err != nil {
			return nil, err
		}
		cpu = append(cpu, float64((cpuTime()-before).Microseconds())/calls)
	}
	return []figure{median("pipeline_cpu_per_call", "µs", 60, false, cpu)}, nil
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// footprint is the memory of an idle host with five plugins, and of each plugin.
func footprint(ctx context.Context, dir string, b binaries, _ int) ([]figure, error) {
	file, err := world(dir, b, 5)
	if err != nil {
		return nil, err
	}
	s, pid, end, err := serve(ctx, b.host, dir, file, 5)
	if err != nil {
		return nil, err
	}
	defer end()
	// A call to each, so that what is loaded on first use is counted, then rest.
	for i := range 5 {
		if out, err := exec.CommandContext(ctx, b.host, "call", "--config", file, fmt.Sprintf("p%d_echo", i), string(payload)).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w: %s", err, out)
		}
	}
	var anon, rss, private []float64
	for range 7 {
		select {
		case <-time.After(500 * time.Millisecond): // samples over time, not a wait for something
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		m, err := memory(pid)
		if err != nil {
			return nil, err
		}
		anon, rss = append(anon, m["RssAnon"]), append(rss, m["VmRSS"])
		for _, p := range s.Plugins {
			plugin, err := processOf(p.PID, b.fixture)
			if err != nil {
				return nil, err
			}
			m, err := memory(plugin)
			if err != nil {
				return nil, err
			}
			private = append(private, m["RssAnon"]+m["RssShmem"])
		}
	}
	return []figure{
		median("host_idle_rss_anon", "MiB", 20, false, anon),
		median("host_idle_rss", "MiB", 55, false, rss),
		median("plugin_private", "MiB", 15, false, private),
	}, nil
}

// processOf is the process that runs a binary, at or below the one the host names:
// behind walls that is the little init in front of the plugin.
func processOf(pid int, binary string) (int, error) {
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && exe == binary {
		return pid, nil
	}
	for _, child := range sandbox.Descendants(pid) {
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", child)); err == nil && exe == binary {
			return child, nil
		}
	}
	return 0, fmt.Errorf("no process below %d runs %s", pid, binary)
}

// memory reads the Rss lines of a process in MiB.
func memory(pid int) (map[string]float64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := map[string]float64{}
	for sc := bufio.NewScanner(f); sc.Scan(); {
		name, rest, _ := strings.Cut(sc.Text(), ":")
		fields := strings.Fields(rest)
		if len(fields) == 2 && fields[1] == "kB" {
			kb, err := strconv.ParseFloat(fields[0], 64)
			if err != nil {
				return nil, err
			}
			out[name] = kb / 1024
		}
	}
	return out, nil
}

// coldStart is the time from starting a host on an empty data dir to the answer
// of its first call.
func coldStart(ctx context.Context, dir string, b binaries, rounds int) ([]figure, error) {
	var cold, warm []float64
	for i := range rounds {
		sub := filepath.Join(dir, strconv.Itoa(i))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			return nil, err
		}
		file, err := world(sub, b, 1)
		if err != nil {
			return nil, err
		}
		for _, took := range []*[]float64{&cold, &warm} {
			begin := time.Now()
			out, err := exec.CommandContext(ctx, b.host, "call", "--config", file, "p0_echo", string(payload)).CombinedOutput()
			if err != nil {
				return nil, fmt.Errorf("%w: %s", err, out)
			}
			*took = append(*took, float64(time.Since(begin).Milliseconds()))
		}
	}
	return []figure{
		median("cold_start_to_first_answer", "ms", 250, false, cold),
		median("second_start_to_first_answer", "ms", 0, false, warm),
	}, nil
}
