package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// bareArg starts this program as the bare MCP server of the comparison.
const bareArg = "__mcp"

// bareServer is MCP servers on the library and nothing else. Over HTTP that is one
// with an echo tool at /mcp and others with many tools at /0/mcp, /1/mcp and so on;
// on stdio it is one of the others.
func bareServer(stdio bool) error {
	if stdio {
		return server.ServeStdio(bare(bareTools))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", server.NewStreamableHTTPServer(bare(0), server.WithStateful(true)))
	for i := range bridgeServers {
		mux.Handle(fmt.Sprintf("/%d/mcp", i), server.NewStreamableHTTPServer(bare(bareTools), server.WithStateful(true)))
	}
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte() // ends with the parent
		os.Exit(0)
	}()
	fmt.Println("http://" + l.Addr().String())
	return (&http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}).Serve(l)
}

// bare is a server with the echo tool, or with n tools.
func bare(n int) *server.MCPServer {
	s := server.NewMCPServer("bare", "1", server.WithToolCapabilities(true))
	echo := func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(string(r.Params.RawArguments)), nil
	}
	if n == 0 {
		s.AddTool(mcp.NewTool("echo", mcp.WithString("text")), echo)
	}
	for i := range n {
		s.AddTool(mcp.NewTool(fmt.Sprintf("tool_%d", i), mcp.WithDescription("A tool of the bench: it gives back what it was sent, as a text, and does nothing else that a caller could see."),
			mcp.WithString("text", mcp.Required(), mcp.Description("What to give back.")), mcp.WithNumber("count", mcp.Description("How often.")),
			mcp.WithString("kind", mcp.Enum("plain", "loud", "quiet"), mcp.Description("In which manner."))), echo)
	}
	return s
}

// gateArg starts this program as the least that a host of plugins can be.
const gateArg = "__gate"

// gateServer answers a tools/call by one call of the plain gRPC server, in another
// process and under mTLS as plugins are, and knows nothing of either: no host with
// plugins in processes of their own can be faster on the machine.
func gateServer(socket, cert string) error {
	runtime.GOMAXPROCS(max(1, runtime.GOMAXPROCS(0)/2)) // as the host does
	conf, err := mutual(cert)
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(credentials.NewTLS(conf)))
	if err != nil {
		return err
	}
	plugin := pluginv1.NewPluginServiceClient(conn)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte() // ends with the parent
		os.Exit(0)
	}()
	fmt.Println("http://" + l.Addr().String())
	return (&http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		answer, err := plugin.Validate(r.Context(), &pluginv1.ValidateRequest{ConfigJson: raw})
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer.Diagnostics[0].Detail) // who asked sees it
	})}).Serve(l)
}

// startGate runs the least host and its plugin.
func startGate(dir string) (string, func(), error) {
	cert := filepath.Join(dir, "gate.pem")
	if err := certificate(cert); err != nil {
		return "", nil, err
	}
	_, endRaw, err := startRaw(dir, cert)
	if err != nil {
		return "", nil, err
	}
	url, endGate, err := startHTTP(gateArg, filepath.Join(dir, fmt.Sprintf("raw%d", len(cert))), cert)
	if err != nil {
		endRaw()
		return "", nil, err
	}
	return url, func() { endGate(); endRaw() }, nil
}

// startBare runs the bare servers over HTTP and gives their address.
func startBare() (url string, end func(), err error) { return startHTTP(bareArg) }

// startHTTP runs this program as a server that says its address.
func startHTTP(args ...string) (url string, end func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.Command(self, args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	end = func() {
		_ = in.Close()
		_ = cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		end()
		return "", nil, err
	}
	return strings.TrimSpace(line), end, nil
}

// mcpClient posts messages by hand, the same to both servers, so that no client
// library is measured with them.
type mcpClient struct {
	url, session, token string
	http                *http.Client
	headers             http.Header // of every request
}

func newMCP(ctx context.Context, url, token string) (*mcpClient, error) {
	c := &mcpClient{url: url + "/mcp", token: token, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}}}
	resp, err := c.post(ctx, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
	if err != nil {
		return nil, err
	}
	c.session = resp.Header.Get("Mcp-Session-Id")
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return nil, err
	}
	return c, resp.Body.Close()
}

func (c *mcpClient) post(ctx context.Context, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for k, v := range c.headers {
		req.Header[k] = v
	}
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	return c.http.Do(req)
}

// do posts and reads the answer, which must hold want.
func (c *mcpClient) do(ctx context.Context, body, want string) (int, error) {
	resp, err := c.post(ctx, body)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err == nil && !bytes.Contains(raw, []byte(want)) {
		err = fmt.Errorf("%s answered %d: %.300s", c.url, resp.StatusCode, raw)
	}
	return len(raw), err
}

var requestIDs atomic.Int64

// toolCall is a tools/call under an id of its own, since servers may refuse one
// that is in flight.
func toolCall(tool, arguments string) string {
	return `{"jsonrpc":"2.0","id":` + strconv.FormatInt(requestIDs.Add(1), 10) + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`
}

// mcpDoor compares a call through the host's MCP door to a plugin with a call of
// a bare server that has the tool in its own process.
func mcpDoor(ctx context.Context, dir string, b binaries, rounds int) ([]figure, error) {
	bareURL, endBare, err := startBare()
	if err != nil {
		return nil, err
	}
	defer endBare()
	url, end, err := serveHost(ctx, dir, b)
	if err != nil {
		return nil, err
	}
	defer end()
	bare, err := newMCP(ctx, bareURL, "")
	if err != nil {
		return nil, err
	}
	ours, err := newMCP(ctx, url, "")
	if err != nil {
		return nil, err
	}
	gateURL, endGate, err := startGate(dir)
	if err != nil {
		return nil, err
	}
	defer endGate()
	gate := &mcpClient{url: gateURL, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}}}
	toGate := func() error { _, err := gate.do(ctx, toolCall("echo", string(payload)), "xxx"); return err }
	toBare := func() error { _, err := bare.do(ctx, toolCall("echo", string(payload)), "xxx"); return err }
	toOurs := func() error { _, err := ours.do(ctx, toolCall("p0_echo", string(payload)), "xxx"); return err }
	var p50, least, at16, at64 []float64
	for range rounds + 1 {
		g, _, err := oneByOne(toGate)
		if err != nil {
			return nil, err
		}
		a, _, err := oneByOne(toBare)
		if err != nil {
			return nil, err
		}
		c, _, err := oneByOne(toOurs)
		if err != nil {
			return nil, err
		}
		p50, least = append(p50, c.Seconds()/a.Seconds()), append(least, g.Seconds()/a.Seconds())
		for n, ratios := range map[int]*[]float64{16: &at16, 64: &at64} {
			x, err := many(n, toBare)
			if err != nil {
				return nil, err
			}
			y, err := many(n, toOurs)
			if err != nil {
				return nil, err
			}
			*ratios = append(*ratios, y/x)
		}
	}
	return []figure{
		median("mcp_call_p50_vs_bare", "×", 2.0, false, p50[1:]),
		median("mcp_least_p50_vs_bare", "×", 0, false, least[1:]),
		median("mcp_calls_per_s_vs_bare_16", "×", 0.35, true, at16[1:]),
		median("mcp_calls_per_s_vs_bare_64", "×", 0.35, true, at64[1:]),
	}, nil
}

// serveHost starts the built host with one plugin and its HTTP door open.
func serveHost(ctx context.Context, dir string, b binaries) (string, func(), error) {
	file, err := world(dir, b, 1)
	if err != nil {
		return "", nil, err
	}
	s, _, end, err := serve(ctx, b.host, dir, file, 1)
	if err != nil {
		return "", nil, err
	}
	url, err := httpDoor(s)
	if err != nil {
		end()
		return "", nil, err
	}
	return url, end, nil
}

// httpDoor is the address of a host's HTTP door.
func httpDoor(s api.Status) (string, error) {
	for _, d := range s.Host.Doors {
		if i := strings.Index(d, "http://"); i >= 0 {
			return d[i:], nil
		}
	}
	return "", errors.New("the host has no HTTP door")
}

const (
	manyTools  = 10_000
	manyAgents = 200
)

// bigList is tools/list with very many tools, asked by very many agents, each
// over its own connection and session.
func bigList(ctx context.Context, dir string, b binaries, rounds int) ([]figure, error) {
	file, err := world(dir, b, 0)
	if err != nil {
		return nil, err
	}
	var hcl bytes.Buffer
	secrets := filepath.Join(dir, "d", "secrets")
	if err := os.MkdirAll(secrets, 0o700); err != nil {
		return nil, err
	}
	for i := range manyAgents {
		fmt.Fprintf(&hcl, "agent \"a%d\" {\n  token = secret(\"a%d\")\n}\n", i, i)
		if err := os.WriteFile(filepath.Join(secrets, fmt.Sprintf("a%d", i)), fmt.Appendf(nil, "token-number-%06d", i), 0o600); err != nil {
			return nil, err
		}
	}
	raw, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append(raw, hcl.Bytes()...), 0o600)
	}
	if err != nil {
		return nil, err
	}
	h, err := loadHost(ctx, file, false)
	if err != nil {
		return nil, err
	}
	defer h.Close(ctx)
	offer := &pluginv1.OfferSnapshot{}
	for i := range manyTools {
		offer.Tools = append(offer.Tools, &pluginv1.Tool{Name: fmt.Sprintf("tool_%d", i), Description: "A tool of the bench that does what its number says.",
			InputSchema: []byte(`{"type":"object","properties":{"text":{"type":"string","description":"What to say"},"count":{"type":"integer"}},"required":["text"]}`)})
	}
	h.API.Registry.Publish("many", 1, offer)
	url := ""
	for _, d := range h.Doors {
		if i := strings.Index(d, "http://"); i >= 0 {
			url = d[i:]
		}
	}
	clients := make([]*mcpClient, manyAgents)
	for i := range clients {
		if clients[i], err = newMCP(ctx, url, fmt.Sprintf("token-number-%06d", i)); err != nil {
			return nil, err
		}
	}
	var p50, size []float64
	for range rounds + 1 {
		var took []time.Duration
		for _, c := range clients {
			begin := time.Now()
			n, err := c.do(ctx, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, "tool_9999")
			if err != nil {
				return nil, err
			}
			took = append(took, time.Since(begin))
			size = append(size, float64(n)/(1<<20))
		}
		p50 = append(p50, float64(quantile(took, 0.5).Microseconds())/1000)
	}
	return []figure{
		median("tools_list_10000_p50", "ms", 10, false, p50[1:]),
		median("tools_list_10000_size", "MiB", 0, false, size),
	}, nil
}

// many is the calls a second that n callers get done together.
func many(n int, f func() error) (float64, error) {
	var done atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	begin := time.Now()
	for range n {
		wg.Go(func() {
			for time.Since(begin) < burst {
				if err := f(); err != nil {
					failed.Store(&err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(done.Load()) / time.Since(begin).Seconds(), nil
}
