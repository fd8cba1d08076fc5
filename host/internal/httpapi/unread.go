package httpapi

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"
)

// lingerTime is how long a connection is read after an answer that left its body
// unread: a client that is just sending it would lose the answer to a reset.
const lingerTime = 500 * time.Millisecond

// unread is a request's body that knows whether it was read to its end. The server
// waits for the rest of one that was not, before its answer and after it, for as
// long as the client likes: such an answer goes out at once instead, and is its
// connection's last.
type unread struct {
	io.ReadCloser
	rest bool // something of it may be still to come
}

func watchBody(r *http.Request) *unread {
	b := &unread{ReadCloser: r.Body, rest: r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0}
	if b.rest {
		r.Body = b
	}
	return b
}

func (b *unread) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.rest = false
	}
	return n, err
}

// finish ends a request whose body is not going to be read. Whoever needs the
// connection's place may have it from here on.
func (b *unread) finish(ctx context.Context, p *pacer) {
	if !b.rest {
		return
	}
	_ = p.FlushError() // a reader that left needs no word
	_ = p.control.SetReadDeadline(time.Now().Add(lingerTime))
	if c, ok := ctx.Value(admittedKey{}).(admitted); ok {
		c.conns.over(c.conn)
	}
}

type admittedKey struct{}

// admitted is a request's connection and who counts it.
type admitted struct {
	conns *Connections
	conn  net.Conn
}
