package web

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"

	"github.com/bulkhead-dev/bulkhead/sdk"
)

// guard decides which addresses are dialled. It looks at the address of the
// socket, after every name has been resolved and every odd spelling of a number
// been read, so nothing can change between check and use.
type guard struct {
	allowed []allowed
	proxy   string // host:port of the proxy, which the operator chose; may be empty
}

// allowed is one entry of allow_hosts: a name or address, perhaps with a port, or
// a block of addresses.
type allowed struct {
	host string // lower case, without a trailing dot; empty for a block
	port string // empty = every port
	ip   netip.Addr
	cidr netip.Prefix
}

func parseAllowed(entry string) (allowed, error) {
	text := strings.TrimSpace(entry)
	bad := fmt.Errorf(`%q is not a host, a host:port or a CIDR block such as "10.0.0.0/8"`, entry)
	if strings.Contains(text, "/") {
		cidr, err := netip.ParsePrefix(text)
		if err != nil {
			return allowed{}, bad
		}
		return allowed{cidr: cidr.Masked()}, nil
	}
	a := allowed{host: text}
	if ip, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		a.host, a.ip = "", ip.Unmap()
		return a, nil
	}
	if host, port, err := net.SplitHostPort(text); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return allowed{}, bad
		}
		a.host, a.port = host, port
		if ip, err := netip.ParseAddr(host); err == nil {
			a.host, a.ip = "", ip.Unmap()
			return a, nil
		}
	}
	a.host = canonicalHost(a.host)
	if a.host == "" || strings.ContainsAny(a.host, " :@?#[]*") {
		return allowed{}, bad
	}
	return a, nil
}

func canonicalHost(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

func newGuard(entries []string) (*guard, error) {
	g := &guard{}
	for _, e := range entries {
		a, err := parseAllowed(e)
		if err != nil {
			return nil, err
		}
		g.allowed = append(g.allowed, a)
	}
	return g, nil
}

// refused is the error of an address the guard does not let through.
type refused struct {
	ip   netip.Addr
	kind string
}

func (r *refused) Error() string {
	return fmt.Sprintf("%s is %s, and only public addresses are opened; the operator can list the host in allow_hosts of plugin \"web\"", r.ip, r.kind)
}

// dial opens a connection for the HTTP transport.
func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{}
	if !g.byName(address) {
		d.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error { return g.check(address) }
	}
	return d.DialContext(ctx, network, address)
}

// byName reports whether the operator allowed the host by its name; then it does
// not matter where the name leads.
func (g *guard) byName(address string) bool {
	if g.proxy != "" && address == g.proxy {
		return true
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	host = canonicalHost(host)
	for _, a := range g.allowed {
		if a.host != "" && a.host == host && (a.port == "" || a.port == port) {
			return true
		}
	}
	return false
}

// check decides about the resolved address of a socket, ip:port.
func (g *guard) check(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("the address %q can't be checked: %w", address, err)
	}
	ip := at.Addr().Unmap().WithZone("")
	for _, a := range g.allowed {
		if a.cidr.IsValid() && a.cidr.Contains(ip) ||
			a.ip.IsValid() && a.ip == ip && (a.port == "" || a.port == strconv.Itoa(int(at.Port()))) {
			return nil
		}
	}
	if kind := notPublic(ip); kind != "" {
		return &refused{ip, kind}
	}
	return nil
}

// checkTarget judges the host of a request that a proxy will open. The names it
// can resolve itself are checked; the rest is the proxy's to resolve.
func (g *guard) checkTarget(ctx context.Context, host, port string) error {
	address := net.JoinHostPort(host, port)
	if g.byName(address) {
		return nil
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return g.check(net.JoinHostPort(ip.String(), port))
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		if name := canonicalHost(host); name == "localhost" || strings.HasSuffix(name, ".localhost") {
			return sdk.Errorf(sdk.Denied, "%q is this machine", host)
		}
		return nil
	}
	for _, ip := range ips {
		if err := g.check(net.JoinHostPort(ip.String(), port)); err != nil {
			return err
		}
	}
	return nil
}

// special are the blocks that are not the public internet, beyond those netip
// knows by itself, with what they are.
var special = []struct {
	prefix netip.Prefix
	kind   string
}{
	{netip.MustParsePrefix("169.254.169.254/32"), "a cloud metadata address"},
	{netip.MustParsePrefix("0.0.0.0/8"), "an address of this network"},
	{netip.MustParsePrefix("100.64.0.0/10"), "a carrier-grade NAT address"},
	{netip.MustParsePrefix("192.0.0.0/24"), "a reserved address"},
	{netip.MustParsePrefix("192.0.2.0/24"), "a documentation address"},
	{netip.MustParsePrefix("192.88.99.0/24"), "a relay address"},
	{netip.MustParsePrefix("198.18.0.0/15"), "a benchmark address"},
	{netip.MustParsePrefix("198.51.100.0/24"), "a documentation address"},
	{netip.MustParsePrefix("203.0.113.0/24"), "a documentation address"},
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved address"},
	{netip.MustParsePrefix("fd00:ec2::254/128"), "a cloud metadata address"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "a local translation address"},
	{netip.MustParsePrefix("100::/64"), "a discard address"},
	{netip.MustParsePrefix("2001::/32"), "a tunnel address"},
	{netip.MustParsePrefix("2001:db8::/32"), "a documentation address"},
	{netip.MustParsePrefix("3fff::/20"), "a documentation address"},
	{netip.MustParsePrefix("fec0::/10"), "a private address"},
}

var (
	nat64    = netip.MustParsePrefix("64:ff9b::/96")
	sixToFor = netip.MustParsePrefix("2002::/16")
	compat   = netip.MustParsePrefix("::/96")
)

// notPublic says what kind of address ip is, or nothing for a public one.
func notPublic(ip netip.Addr) string {
	for _, s := range special {
		if s.prefix.Contains(ip) {
			return s.kind
		}
	}
	switch {
	case ip.IsUnspecified():
		return "no address of a host"
	case ip.IsLoopback():
		return "a loopback address"
	case ip.IsPrivate():
		return "a private address"
	case ip.IsLinkLocalUnicast():
		return "a link-local address"
	case ip.IsMulticast(), ip.IsInterfaceLocalMulticast(), ip.IsLinkLocalMulticast():
		return "a multicast address"
	}
	if v4, ok := embedded(ip); ok {
		if kind := notPublic(v4); kind != "" {
			return "a translation of " + v4.String() + ", " + kind
		}
	}
	if !ip.IsGlobalUnicast() {
		return "not a public address"
	}
	return ""
}

// embedded finds the IPv4 address inside an IPv6 one that a gateway would unpack.
func embedded(ip netip.Addr) (netip.Addr, bool) {
	if !ip.Is6() {
		return netip.Addr{}, false
	}
	b := ip.As16()
	switch {
	case nat64.Contains(ip), compat.Contains(ip):
		return netip.AddrFrom4([4]byte(b[12:])), true
	case sixToFor.Contains(ip):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe: // ISATAP
		return netip.AddrFrom4([4]byte(b[12:])), true
	}
	return netip.Addr{}, false
}
