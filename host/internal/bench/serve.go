package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
)

// serve starts the built host and waits until n plugins are ready. A host that
// ends by itself is an error with its own words.
func serve(ctx context.Context, bin, dir, file string, n int) (s api.Status, pid int, end func(), err error) {
	cmd := exec.Command(bin, "serve", "--config", file)
	var said bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &said, &said
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return s, 0, nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // how it ends is told by what it said
	}()
	end = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		<-done
	}
	for {
		select {
		case <-done:
			return s, 0, nil, fmt.Errorf("the host ended: %s", said.Bytes())
		case <-ctx.Done():
			end()
			return s, 0, nil, errors.Join(errors.New("the plugins did not come up"), ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
		if s, err := ready(ctx, bin, file, n); err == nil {
			return s, cmd.Process.Pid, end, nil
		}
	}
}

// ready is the status of a host whose n plugins are ready.
func ready(ctx context.Context, bin, file string, n int) (s api.Status, err error) {
	out, err := exec.CommandContext(ctx, bin, "status", "--json", "--config", file).Output()
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(out, &s); err != nil {
		return s, err
	}
	have := 0
	for _, p := range s.Plugins {
		if p.State == "ready" {
			have++
		}
	}
	if have != n {
		return s, fmt.Errorf("%d of %d plugins are ready", have, n)
	}
	return s, nil
}
