package sdk

import (
	"context"
	"sync"
	"time"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
	"github.com/bulkhead-dev/bulkhead/sdk/wire"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
)

// Deadlines of requests to the host.
const (
	hostDial  = 5 * time.Second  // for the connection to come up
	hostQuick = 10 * time.Second // state, memory, events, sessions
	hostSlow  = 15 * time.Minute // nested calls: the most a call may take
)

// hostConn is the one connection to the host service. The broker forgets an
// offered connection after 5 s, so it is dialled in the background as soon as
// there is a broker; requests wait for it.
type hostConn struct {
	mu    sync.Mutex
	ready chan struct{} // closed when client is set
	stop  chan struct{} // ends the dialling
	conn  *grpc.ClientConn
}

func newHostConn() *hostConn { return &hostConn{ready: make(chan struct{}), stop: make(chan struct{})} }

// connect starts dialling; an earlier connection, of an earlier server of the
// same plugin, is dropped.
func (h *hostConn) connect(broker *plugin.GRPCBroker) {
	h.close()
	h.mu.Lock()
	defer h.mu.Unlock()
	stop, ready := make(chan struct{}), make(chan struct{})
	h.stop, h.ready = stop, ready
	go func() {
		for {
			conn, err := broker.DialWithOptions(wire.HostServiceID,
				grpc.WithStaticStreamWindowSize(wire.StreamWindow), grpc.WithStaticConnWindowSize(wire.ConnWindow), grpc.WithDefaultCallOptions(
					grpc.MaxCallRecvMsgSize(wire.MaxMessage), grpc.MaxCallSendMsgSize(wire.MaxMessage)))
			if err == nil {
				h.take(conn, stop, ready)
				return
			}
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
}

func (h *hostConn) take(conn *grpc.ClientConn, stop, ready chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-stop:
		conn.Close()
	default:
		h.conn = conn
		close(ready)
	}
}

// close drops the connection and ends the dialling, within hostDial.
func (h *hostConn) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.stop:
	default:
		close(h.stop)
	}
	if h.conn != nil {
		h.conn.Close()
		h.conn = nil
		h.ready = make(chan struct{})
	}
}

func (h *hostConn) client(ctx context.Context) (pluginv1.HostServiceClient, error) {
	h.mu.Lock()
	ready := h.ready
	h.mu.Unlock()
	select {
	case <-ready:
	default:
		wait := time.NewTimer(hostDial)
		defer wait.Stop()
		select {
		case <-ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-wait.C:
			return nil, Errorf(Unavailable, "the host offers no services to this plugin").After(0)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conn == nil {
		return nil, Errorf(Unavailable, "the connection to the host is closed").After(0)
	}
	return pluginv1.NewHostServiceClient(h.conn), nil
}

// ask runs one unary request with its deadline and reads the host's error.
func ask[Req, Resp any](ctx context.Context, h *Host, limit time.Duration, req Req,
	rpc func(pluginv1.HostServiceClient, context.Context, Req, ...grpc.CallOption) (Resp, error),
) (Resp, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	client, err := h.conn.client(ctx)
	if err != nil {
		var none Resp
		return none, err
	}
	resp, err := rpc(client, ctx, req)
	return resp, errorFromStatus(err)
}
