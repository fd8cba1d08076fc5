package downstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/hide"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// discoverTime is how long server/discover may stay unanswered by default. Some
// older servers never answer what they don't know.
const discoverTime = 4 * time.Second

// Connect connects to the target within ctx. The connection outlives ctx; events
// may come before Connect returns.
func Connect(ctx context.Context, t Target, events Events) (*Conn, error) {
	t.hide = hide.New(t.Secrets...)
	if t.Isolated {
		return connectIsolated(ctx, &t, events)
	}
	if len(t.Command) > 0 || t.pipes != nil {
		return connectProgram(ctx, &t, events)
	}
	return connectHTTP(ctx, &t, events)
}

func connectProgram(ctx context.Context, t *Target, events Events) (*Conn, error) {
	c, err := openProgram(ctx, t, events)
	if err != nil {
		return nil, err
	}
	probed := t.Known.Era != Legacy
	if probed {
		modern, err := c.discover(ctx)
		if modern {
			return c.ready(Known{Stdio, Modern}), nil
		}
		t.Log.Debug("the server does not speak the newer revision", "reason", err)
	}
	err = c.initialize(ctx)
	if err != nil && probed && isDone(c) && ctx.Err() == nil {
		// Some programs end at a message they don't expect, perhaps long after it
		// was sent.
		t.Log.Debug("the server ended at server/discover; once more with initialize alone", "error", err)
		c.Close()
		if t.pipes != nil {
			return nil, fmt.Errorf("%w: %w", errOnceMore, err)
		}
		if c, err = openProgram(ctx, t, events); err != nil {
			return nil, err
		}
		err = c.initialize(ctx)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c.ready(Known{Stdio, Legacy}), nil
}

func isDone(c *Conn) bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func openProgram(ctx context.Context, t *Target, events Events) (*Conn, error) {
	prog, ends, err := startProgram(ctx, t)
	if err != nil {
		return nil, err
	}
	talk := prog.attach(ends)
	tr := transport.NewIO(prog.stdout, prog, nil)
	transport.WithCommandLogger(quiet(t.Log))(tr)
	c := newConn(t, tr, prog, nil, events, prog.flow)
	prog.msgs.answer = c.answer
	talk()
	if err := tr.Start(c.ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func connectHTTP(ctx context.Context, t *Target, events Events) (*Conn, error) {
	kind := t.Transport
	if kind == Auto || kind == "" {
		kind = Auto
		if t.Known.Transport == SSE {
			kind = SSE
		}
	}
	if kind == SSE {
		c, err := connectSSE(ctx, t, events)
		if err == nil || t.Transport == SSE {
			return c, err
		}
		kind = Auto // what was known is not true any more
	}
	c, err := connectStreamable(ctx, t, events)
	if err == nil || kind != Auto || ctx.Err() != nil {
		return c, err
	}
	var status *StatusError
	if !errors.As(err, &status) || status.Status >= 500 || status.Status == 429 {
		return nil, err
	}
	c, sseErr := connectSSE(ctx, t, events)
	if sseErr != nil {
		return nil, fmt.Errorf("over Streamable HTTP: %w; over SSE: %w", err, sseErr)
	}
	return c, nil
}

func connectStreamable(ctx context.Context, t *Target, events Events) (*Conn, error) {
	if t.Known.Era != Legacy {
		c, err := openStreamable(t, events)
		if err != nil {
			return nil, err
		}
		modern, err := c.discover(ctx)
		if modern {
			return c.ready(Known{HTTP, Modern}), nil
		}
		c.Close()
		var auth *AuthError
		if errors.As(err, &auth) || (Unsent(err) && !errors.Is(err, ErrSessionLost)) {
			return nil, err // initialize would hear the same
		}
	}
	c, err := openStreamable(t, events)
	if err != nil {
		return nil, err
	}
	if err := c.initialize(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c.ready(Known{HTTP, Legacy}), nil
}

func openStreamable(t *Target, events Events) (*Conn, error) {
	f := newFlow()
	tr, post, free, err := t.streamable(f)
	if err != nil {
		return nil, err
	}
	c := newConn(t, tr, nil, free, events, f)
	c.post = post
	if err := tr.Start(c.ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func connectSSE(ctx context.Context, t *Target, events Events) (*Conn, error) {
	f := newFlow()
	tr, free, err := t.sse(f)
	if err != nil {
		return nil, err
	}
	c := newConn(t, tr, nil, free, events, f)
	// The stream lives on the connection's context, its opening on ctx.
	stop := context.AfterFunc(ctx, func() { c.end(context.Cause(ctx)) })
	err = tr.Start(c.ctx)
	if err == nil {
		err = c.initialize(ctx)
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		why := c.Err() // the stream may have ended for a reason of its own
		c.Close()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case why != nil:
			return nil, why
		}
		return nil, t.hide.Error(classify(err))
	}
	return c.ready(Known{SSE, Legacy}), nil
}

// discover asks the server what it is, in the newer way. It reports whether the
// server speaks the newer revision; an error says why not, if there is a reason.
func (c *Conn) discover(ctx context.Context) (bool, error) {
	probe, cancel := context.WithTimeout(ctx, orDefault(c.target.DiscoverTimeout, discoverTime))
	defer cancel()
	c.speak(mcp.LATEST_PROTOCOL_VERSION, Modern)
	raw, err := c.Request(probe, string(mcp.MethodServerDiscover), nil, nil, nil)
	var rpc *RPCError
	if errors.As(err, &rpc) && rpc.Code == codeUnsupportedVersion {
		// It knows the method and names what it speaks; the refusal may have been
		// a matter of the moment.
		var data struct {
			Supported []string `json:"supported"`
		}
		if json.Unmarshal(rpc.Data, &data) == nil {
			if v := newest(data.Supported, true); v != "" {
				c.speak(v, Modern)
				raw, err = c.Request(probe, string(mcp.MethodServerDiscover), nil, nil, nil)
			}
		}
	}
	if err == nil {
		var r struct {
			SupportedVersions []string                   `json:"supportedVersions"`
			Capabilities      map[string]json.RawMessage `json:"capabilities"`
			Instructions      string                     `json:"instructions"`
			Server            json.RawMessage            `json:"serverInfo"`
			Meta              map[string]json.RawMessage `json:"_meta"`
		}
		// A result without the versions is an answer to anything, not to this.
		if err = json.Unmarshal(raw, &r); err == nil {
			if v := newest(r.SupportedVersions, true); v != "" {
				if r.Server == nil {
					r.Server = r.Meta[mcp.MetaKeyServerInfo]
				}
				c.speak(v, Modern)
				c.learn(v, r.Server, r.Capabilities, r.Instructions)
				return true, nil
			}
		}
	}
	c.speak("", Legacy)
	return false, err
}

// initialize is the handshake up to 2025-11-25.
func (c *Conn) initialize(ctx context.Context) error {
	c.speak("", Legacy)
	params, err := json.Marshal(map[string]any{
		"protocolVersion": mcp.LATEST_LEGACY_PROTOCOL_VERSION, "capabilities": c.legacyCapabilities(), "clientInfo": c.target.clientInfo(),
	})
	if err != nil {
		return err
	}
	raw, err := c.Request(ctx, string(mcp.MethodInitialize), params, nil, nil)
	if err != nil {
		return err
	}
	var r struct {
		Version      string                     `json:"protocolVersion"`
		Capabilities map[string]json.RawMessage `json:"capabilities"`
		Instructions string                     `json:"instructions"`
		Server       json.RawMessage            `json:"serverInfo"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return fmt.Errorf("the server's answer to initialize can't be read: %w", err)
	}
	if newest([]string{r.Version}, false) == "" {
		return fmt.Errorf("the server speaks revision %q of the protocol; %v are known", clip(r.Version, 40), mcp.LegacyProtocolVersions())
	}
	c.speak(r.Version, Legacy)
	c.learn(r.Version, r.Server, r.Capabilities, r.Instructions)
	c.notify(ctx, "notifications/initialized", nil)
	return nil
}

// newest is the newest of versions that both sides have; modern = of the newer era.
func newest(versions []string, modern bool) string {
	best := ""
	for _, v := range versions {
		if slices.Contains(mcp.ValidProtocolVersions, v) && mcp.IsModernProtocol(v) == modern && v > best {
			best = v
		}
	}
	return best
}

// speak sets the revision that requests are written in.
func (c *Conn) speak(version, era string) {
	c.Info.Version, c.Known.Era = version, era
	if h, ok := c.tr.(transport.HTTPConnection); ok {
		h.SetProtocolVersion(version)
	}
}

func (c *Conn) learn(version string, server json.RawMessage, capabilities map[string]json.RawMessage, instructions string) {
	var who struct{ Name, Title, Version string }
	_ = json.Unmarshal(server, &who) // what can't be read stays empty
	c.Info = Info{Version: version, Server: server, Name: who.Name, Title: who.Title, Release: who.Version,
		Instructions: instructions, Capabilities: capabilities}
}

// ready starts what goes on beside the requests.
func (c *Conn) ready(k Known) *Conn {
	c.Known = k
	if c.modern() {
		go c.listen()
	}
	return c
}

// listen keeps the newer revision's stream of changes open.
func (c *Conn) listen() {
	if !c.Info.Has("tools") && !c.Info.Has("prompts") && !c.Info.Has("resources") {
		return
	}
	params := json.RawMessage(`{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}}`)
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		begin := time.Now()
		_, err := c.Request(c.ctx, string(mcp.MethodSubscriptionsListen), params, nil, nil)
		if c.ctx.Err() != nil || BadParams(err) {
			return
		}
		if time.Since(begin) > time.Minute {
			wait = time.Second
		}
		select {
		case <-c.ctx.Done():
			return
		case <-time.After(wait):
		}
		// What changed while nobody listened is found by listing.
		c.changed(ToolsChanged)
	}
}
