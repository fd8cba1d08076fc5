package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

const (
	guessBurst = 20          // wrong tokens of one address that are answered plainly
	guessPause = time.Second // for each more
	guessers   = 4096        // addresses that are remembered
	guessPart  = 64          // bits of an IPv6 address that tell one network from another
	guessFault = "too many wrong tokens came from this address"
)

// guesses counts wrong tokens by the address they come from. Right ones are never
// counted: a neighbour's guesses keep nobody out.
type guesses struct {
	mu   sync.Mutex
	from map[netip.Prefix]*rate.Limiter
}

// wrong notes one and says how long its sender is to wait, 0 when it need not.
func (g *guesses) wrong(remote string) time.Duration {
	key := network(remote)
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.from[key]
	if l == nil {
		if g.from == nil {
			g.from = map[netip.Prefix]*rate.Limiter{}
		}
		for k := range g.from { // whichever comes first makes room
			if len(g.from) < guessers {
				break
			}
			delete(g.from, k)
		}
		l = rate.NewLimiter(rate.Every(guessPause), guessBurst)
		g.from[key] = l
	}
	if l.Allow() {
		return 0
	}
	return guessPause
}

// network is what of an address its sender can't choose freely.
func network(remote string) netip.Prefix {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{} // no address: all such share one place
	}
	ip = ip.Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = guessPart
	}
	p, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// unknown answers a request whose token is none. Every wrong one gets the same
// answer, and who keeps trying is told to wait.
func (a *API) unknown(w http.ResponseWriter, r *http.Request, err error, refuse refuser) {
	if r.Header.Get("Authorization") != "" {
		if wait := a.guesses.wrong(r.RemoteAddr); wait > 0 {
			w.Header().Set("Connection", "close")
			refuse(w, r, http.StatusTooManyRequests, fault.New(fault.TooManyGuesses, guessFault).After(wait))
			return
		}
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="bulkhead"`)
	refuse(w, r, http.StatusUnauthorized, fault.From(err))
}
