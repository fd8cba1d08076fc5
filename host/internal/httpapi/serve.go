package httpapi

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Serve runs a handler on a listener until ctx ends, then lets requests finish
// for at most grace. conns bounds the connections; nil is no bound.
func Serve(ctx context.Context, l net.Listener, h http.Handler, conns *Connections, grace time.Duration, log hclog.Logger) error {
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return base },
		ErrorLog:    log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
	}
	if conns != nil {
		l, srv.ConnState = newListener(l, conns), conns.state
		srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, admittedKey{}, admitted{conns, c})
		}
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer stop()
	err := srv.Shutdown(end)
	cancel() // streams and hijacked connections end with their context
	if err != nil {
		err = srv.Close()
	}
	if served := <-done; !errors.Is(served, http.ErrServerClosed) {
		return served
	}
	return err
}
