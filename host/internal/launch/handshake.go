package launch

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"sync"

	goplugin "github.com/hashicorp/go-plugin"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/sdk/wire"
)

// maxHandshake bounds the one line of stdout that is read.
const maxHandshake = 8 << 10

// handshake takes a plugin's stdout: it checks the first line, hands it to
// go-plugin and drains the rest, for ever, so that no write there ever blocks.
type handshake struct {
	instance string
	to       *io.PipeWriter

	mu    sync.Mutex
	line  []byte
	over  bool
	fault *fault.Error
}

func (h *handshake) Write(p []byte) (int, error) {
	h.mu.Lock()
	if h.over {
		h.mu.Unlock()
		return len(p), nil
	}
	head, _, ended := bytes.Cut(p, []byte("\n"))
	h.line = append(h.line, head[:min(len(head), maxHandshake+1-len(h.line))]...)
	if !ended && len(h.line) <= maxHandshake {
		h.mu.Unlock()
		return len(p), nil
	}
	h.over = true
	h.fault = h.check(string(h.line))
	good := h.fault == nil
	line := append(h.line, '\n')
	h.mu.Unlock()

	if good {
		h.to.Write(line)
	}
	h.to.Close()
	return len(p), nil
}

// end tells go-plugin that no line will come.
func (h *handshake) end() { h.to.Close() }

// verdict is what was wrong with the line; done tells whether one came at all.
func (h *handshake) verdict() (wrong *fault.Error, done bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fault, h.over
}

// check reads core version, protocol version, network, address, transport and
// certificate.
func (h *handshake) check(line string) *fault.Error {
	parts := strings.Split(strings.TrimSpace(line), "|")
	bad := func(format string, args ...any) *fault.Error {
		return fault.New(fault.PluginHandshake, format, args...)
	}
	if len(line) > maxHandshake || len(parts) < 4 {
		return bad("plugin %q printed %q on stdout where its handshake belongs; a plugin writes nothing there, build it with the sdk", h.instance, cut(line, 80))
	}
	core, errCore := strconv.Atoi(parts[0])
	version, errVersion := strconv.Atoi(parts[1])
	switch {
	case errCore != nil || errVersion != nil:
		return bad("plugin %q printed %q on stdout where its handshake belongs; a plugin writes nothing there, build it with the sdk", h.instance, cut(line, 80))
	case core > goplugin.CoreProtocolVersion:
		return bad("plugin %q was built with a newer go-plugin (core %d, this host %d): upgrade the host", h.instance, core, goplugin.CoreProtocolVersion)
	case core < goplugin.CoreProtocolVersion:
		return bad("plugin %q was built with an older go-plugin (core %d, this host %d): rebuild the plugin", h.instance, core, goplugin.CoreProtocolVersion)
	case version > int(wire.Handshake.ProtocolVersion):
		return bad("plugin %q speaks protocol %d, this host %d: upgrade the host", h.instance, version, wire.Handshake.ProtocolVersion)
	case version < int(wire.Handshake.ProtocolVersion):
		return bad("plugin %q speaks protocol %d, this host %d: rebuild the plugin against a current sdk", h.instance, version, wire.Handshake.ProtocolVersion)
	case len(parts) < 5 || parts[4] != string(goplugin.ProtocolGRPC):
		return bad("plugin %q does not speak gRPC: rebuild it against a current sdk", h.instance)
	case len(parts) < 6 || len(parts[5]) <= 50:
		return bad("plugin %q sent no certificate: rebuild it against a current sdk", h.instance)
	}
	return nil
}

func cut(s string, n int) string {
	s = printable(s)
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
