package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

const (
	manyTasks = 10_000
	listCalls = 15 // a round
	wakeTime  = time.Minute
)

// schedule is a scheduler with very many tasks: listing them, how often it wakes up
// while none is due, and its memory.
func schedule(ctx context.Context, dir string, b binaries, rounds int) ([]figure, error) {
	bin := filepath.Join(dir, "bulkhead-plugin-scheduling")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", bin, "./plugins/scheduling")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build: %w\n%s", err, text)
	}
	file, err := world(dir, b, 0)
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(file)
	if err == nil {
		raw = fmt.Appendf(raw, "plugin \"scheduling\" {\n  binary = %q\n  grants = [\"runs\"]\n  config {\n    max_tasks_per_agent = %d\n  }\n}\n", bin, manyTasks)
		err = os.WriteFile(file, raw, 0o600)
	}
	if err != nil {
		return nil, err
	}
	s, _, end, err := serve(ctx, b.host, dir, file, 1)
	if err != nil {
		return nil, err
	}
	defer end()
	door, err := httpDoor(s)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Timeout: time.Minute}
	defer client.CloseIdleConnections()
	ask := func(method, path, body, want string) ([]byte, error) {
		req, err := http.NewRequestWithContext(ctx, method, door+path, bytes.NewReader([]byte(body)))
		if err != nil {
			return nil, err
		}
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		resp, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err == nil && (resp.StatusCode != 200 || !bytes.Contains(raw, []byte(want))) {
			err = fmt.Errorf("%s: %d %.300s", path, resp.StatusCode, raw)
		}
		return raw, err
	}
	begun := time.Now()
	if err := fill(manyTasks, func(i int) error {
		// Due in a day at the earliest: nothing fires while it is measured.
		_, err := ask("POST", "/v1/tools/schedule_task/call", fmt.Sprintf(`{"arguments":{"name":"task %05d","description":"Look at number %d and tell what has changed since.","every":"%dh"}}`, i, i, 24+i%500), "Scheduled task")
		return err
	}); err != nil {
		return nil, err
	}
	made := float64(time.Since(begun).Microseconds()) / manyTasks / 1000
	var list, board []float64
	for range rounds {
		var a, b []time.Duration
		for range listCalls {
			begun := time.Now()
			if _, err := ask("POST", "/v1/tools/list_scheduled_tasks/call?shape=none", `{"arguments":{}}`, "10000 scheduled tasks"); err != nil {
				return nil, err
			}
			a = append(a, time.Since(begun))
			begun = time.Now()
			if _, err := ask("GET", "/v1/schedule?limit=100", "", `"total":10000`); err != nil {
				return nil, err
			}
			b = append(b, time.Since(begun))
		}
		list, board = append(list, quantile(a, 0.5).Seconds()*1000), append(board, quantile(b, 0.5).Seconds()*1000)
	}
	wakes := func() (float64, error) {
		raw, err := ask("GET", "/v1/schedule?limit=1", "", `"wakes"`)
		var v struct{ Wakes float64 }
		if err == nil {
			err = json.Unmarshal(raw, &v)
		}
		return v.Wakes, err
	}
	before, err := wakes()
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(wakeTime): // the time that is measured
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	after, err := wakes()
	if err != nil {
		return nil, err
	}
	pid, err := processOf(s.Plugins[0].PID, bin)
	if err != nil {
		return nil, err
	}
	m, err := memory(pid)
	if err != nil {
		return nil, err
	}
	return []figure{
		median("schedule_task_of_10000", "ms", 0, false, []float64{made}),
		median("schedule_list_of_10000_p50", "ms", 60, false, list),
		median("schedule_board_of_10000_p50", "ms", 30, false, board),
		median("schedule_wakes_a_minute", "", 3, false, []float64{after - before}),
		median("schedule_private_with_10000", "MiB", 60, false, []float64{m["RssAnon"] + m["RssShmem"]}),
	}, nil
}

// fill does n things, some at once, until one fails.
func fill(n int, do func(i int) error) error {
	todo := make(chan int)
	var wg sync.WaitGroup
	var once sync.Once
	var failed error
	stop := make(chan struct{})
	for range 16 {
		wg.Go(func() {
			for i := range todo {
				if err := do(i); err != nil {
					once.Do(func() { failed = err; close(stop) })
				}
			}
		})
	}
	for i := range n {
		select {
		case todo <- i:
		case <-stop:
		}
	}
	close(todo)
	wg.Wait()
	return failed
}
