package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) mcp() *cobra.Command {
	var agent, session string
	cmd := &cobra.Command{
		Use: "mcp", Short: "Speak MCP on stdio: joins the running host, or runs one for its own life", Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			slacken()
			c, end, err := a.reachOrStart(cmd.Context(), a.logger("warn"))
			if err != nil {
				return err
			}
			defer end()
			return a.pipe(cmd.Context(), c, as(agent, session))
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "agent to act as")
	cmd.Flags().StringVar(&session, "session", "", "session to go on with")
	return cmd
}

// pipe joins stdin and stdout to the host's end of the stream.
func (a *app) pipe(ctx context.Context, c *client, header http.Header) error {
	conn, err := c.dial(ctx, "", "")
	if err != nil {
		return exit{exitNoHost, err}
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return failed(err)
	}
	req, err := http.NewRequest(http.MethodPost, "http://host/v1/mcp", nil)
	if err != nil {
		return failed(err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	if err := req.Write(conn); err != nil {
		return failed(err)
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, req)
	if err != nil {
		return failed(err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		raw, err := io.ReadAll(resp.Body)
		return failed(errors.Join(answered(resp.StatusCode, raw), err))
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return failed(err)
	}
	go func() { // ends with the process: a read of stdin can't be called off
		_, err := io.Copy(conn, a.in)
		if half, ok := conn.(*net.UnixConn); ok && err == nil {
			_ = half.CloseWrite() // the host answers what is in flight, then closes
			return
		}
		_ = conn.Close()
	}()
	if _, err := io.Copy(a.out, r); err != nil && ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
		return failed(fmt.Errorf("the connection to the host broke: %w", err))
	}
	return nil
}
