package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/hcl/v2"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/config"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/host"
)

const dialTimeout = 2 * time.Second

var errInterrupted = errors.New("interrupted")

// client talks to a host over its control socket.
type client struct {
	socket string
	http   *http.Client
}

// find is the client of the config's host. Where the config has faults a host that
// runs by what it said before is as good, and the faults are for warn to tell; where
// none runs they are the error.
func (a *app) find(ctx context.Context, warn func(hcl.Diagnostics)) (*config.Config, *client, bool, error) {
	cfg, diags, err := a.read()
	if err != nil {
		return nil, nil, false, err
	}
	if cfg.Host.DataDir == "" {
		return nil, nil, false, a.faults(cfg, diags)
	}
	c := dial(cfg)
	alive := c.alive(ctx)
	if diags.HasErrors() {
		if !alive {
			return nil, nil, false, a.faults(cfg, diags)
		}
		warn(diags)
	}
	return cfg, c, alive, nil
}

// warn tells in a line that the config on disk is not what the host runs by.
func (a *app) warn(diags hcl.Diagnostics) {
	first, rest, _ := strings.Cut(config.Err(diags).Error(), "\n")
	if rest != "" {
		first += ", and more"
	}
	fmt.Fprintf(a.errPeople, "bulkhead: warning: the config has faults, the host runs by what it said before: %s\n  → `bulkhead check` tells them all\n", first)
}

// reach finds the running host of the config; without one the exit code is 3.
func (a *app) reach(ctx context.Context) (*client, error) {
	return a.reachTelling(ctx, a.warn)
}

func (a *app) reachTelling(ctx context.Context, warn func(hcl.Diagnostics)) (*client, error) {
	cfg, c, alive, err := a.find(ctx, warn)
	if err != nil {
		return nil, err
	}
	if !alive {
		return nil, exit{exitNoHost, fault.New(fault.NoHost, "no host runs for %s", cfg.Host.DataDir)}
	}
	return c, nil
}

// reachOrStart finds the running host, or starts one that lives until end.
func (a *app) reachOrStart(ctx context.Context, log hclog.Logger) (c *client, end func(), err error) {
	cfg, c, alive, err := a.find(ctx, a.warn)
	if err != nil {
		return nil, nil, err
	}
	if alive {
		return c, func() {}, nil
	}
	h, err := host.Start(ctx, host.Options{Config: cfg, Version: version(), Log: log, Private: true})
	var f *fault.Error
	if errors.As(err, &f) && f.Ref == fault.DataDirLocked && c.comes(ctx) {
		return c, func() {}, nil // another one was faster
	}
	if err != nil {
		return nil, nil, exit{exitNoHost, err}
	}
	end = func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		if err := h.Close(stop); err != nil {
			log.Warn("the host did not stop cleanly", "error", err)
		}
	}
	return c, end, nil
}

func dial(cfg *config.Config) *client {
	c := &client{socket: host.ControlSocket(cfg.Host.DataDir)}
	c.http = &http.Client{Transport: &http.Transport{DialContext: c.dial}}
	return c
}

func (c *client) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if err := host.TrustSocket(c.socket); err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: dialTimeout}
	return d.DialContext(ctx, "unix", c.socket)
}

func (c *client) alive(ctx context.Context) bool {
	ctx, end := context.WithTimeout(ctx, dialTimeout)
	defer end()
	conn, err := c.dial(ctx, "", "")
	return err == nil && conn.Close() == nil
}

// joinTime is how long a host that holds the data dir may take to open its socket.
const joinTime = 10 * time.Second

// comes waits for a host that is just starting.
func (c *client) comes(ctx context.Context) bool {
	ctx, end := context.WithTimeout(ctx, joinTime)
	defer end()
	for !c.alive(ctx) {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
	return true
}

// do sends one request and reads a JSON answer into out.
func (c *client) do(ctx context.Context, method, path string, header http.Header, in, out any) error {
	resp, err := c.send(ctx, method, path, header, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return failed(err)
	}
	if resp.StatusCode >= 300 {
		return failed(answered(resp.StatusCode, raw))
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return failed(fmt.Errorf("the host's answer can't be read: %w", err))
	}
	return nil
}

func answered(status int, raw []byte) error {
	var body struct {
		Error *api.Error `json:"error"`
	}
	if json.Unmarshal(raw, &body) == nil && body.Error != nil {
		return body.Error
	}
	return fmt.Errorf("the host answered %d: %.200s", status, raw)
}

func (c *client) send(ctx context.Context, method, path string, header http.Header, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return nil, exit{exitUsage, err}
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://host"+path, body)
	if err != nil {
		return nil, exit{exitUsage, err}
	}
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return nil, failed(errInterrupted)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
			return nil, exit{exitNoHost, fault.New(fault.NoHost, "the host hung up without an answer: it ended, or it refused this process as one that a plugin of it started; its log says which")}
		}
		return nil, exit{exitNoHost, fault.New(fault.NoHost, "the host can't be reached: %w", err)}
	}
	return resp, nil
}

// stream reads JSON lines until the host ends them or each says stop.
func (c *client) stream(ctx context.Context, method, path string, header http.Header, in any, each func([]byte) error) error {
	if header == nil {
		header = http.Header{}
	}
	header.Set("Accept", "application/x-ndjson")
	resp, err := c.send(ctx, method, path, header, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			return failed(err)
		}
		return failed(answered(resp.StatusCode, raw))
	}
	r := bufio.NewReader(resp.Body)
	for {
		line, err := r.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			if err := each(line); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && ctx.Err() != nil:
			return nil // the person had enough
		case err != nil:
			return failed(err)
		}
	}
}

// as is the headers that say who calls.
func as(agent, session string) http.Header {
	h := http.Header{}
	if agent != "" {
		h.Set(api.HeaderAgent, agent)
	}
	if session != "" {
		h.Set(api.HeaderSession, session)
	}
	return h
}
