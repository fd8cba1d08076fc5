// Package netguard keeps programs that open addresses for others out of private
// networks. A Guard looks at the address of the socket when it is dialled, after
// every name has been resolved and every odd spelling of a number been read, so
// nothing can change between check and use.
package netguard

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/net/idna"
)

// Guard decides which addresses are dialled.
type Guard struct {
	allowed []allowed
	named   map[string]bool // host:port that are dialled wherever they lead

	resolver *net.Resolver // nil = the system's
}

// allowed is one entry of allow_hosts: a name or address, perhaps with a port, or
// a block of addresses.
type allowed struct {
	host string // lower case, without a trailing dot; empty for a block
	port string // empty = every port
	ip   netip.Addr
	cidr netip.Prefix
}

// Valid says what is wrong with an entry for New, if anything.
func Valid(entry string) error {
	_, err := parseAllowed(entry)
	return err
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

// New makes a guard that admits public addresses and, of the others, those of the
// entries: names, name:port, addresses, address:port and CIDR blocks.
func New(entries []string) (*Guard, error) {
	g := &Guard{named: map[string]bool{}}
	for _, e := range entries {
		a, err := parseAllowed(e)
		if err != nil {
			return nil, err
		}
		g.allowed = append(g.allowed, a)
	}
	return g, nil
}

// Admit lets host:port through wherever it leads: what the operator chose, such as
// a proxy. Call it before the guard is used.
func (g *Guard) Admit(address string) { g.named[address] = true }

// ResolveWith has names looked up with r instead of the system's resolver. Call it
// before the guard is used.
func (g *Guard) ResolveWith(r *net.Resolver) { g.resolver = r }

// Refused is the error of an address that a guard does not let through.
type Refused struct {
	IP   netip.Addr
	Kind string // a private address, a loopback address, …
}

func (r *Refused) Error() string {
	return fmt.Sprintf("%s is %s, and only public addresses are opened; the operator can list the host in allow_hosts of the plugin", r.IP, r.Kind)
}

// Dial opens a connection, as an HTTP transport wants it; the error of an address
// that is not admitted wraps a *Refused.
func (g *Guard) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Resolver: g.resolver}
	if !g.byName(address) {
		d.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error { return g.Check(address) }
	}
	return d.DialContext(ctx, network, address)
}

// byName reports whether the operator allowed the host by its name; then it does
// not matter where the name leads.
func (g *Guard) byName(address string) bool {
	if g.named[address] {
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

// Check decides about the resolved address of a socket, ip:port.
func (g *Guard) Check(address string) error {
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
	if kind := NotPublic(ip); kind != "" {
		return &Refused{ip, kind}
	}
	return nil
}

// CheckTarget judges the host of a request that a proxy or another service will
// open. The names it can resolve itself are checked, and the numbers in every
// spelling that somebody may read as an address; the rest is the proxy's to resolve.
func (g *Guard) CheckTarget(ctx context.Context, host, port string) error {
	if g.byName(net.JoinHostPort(host, port)) {
		return nil
	}
	// As clients do before they pass a name on: other scripts have digits and dots, too.
	if ascii, err := idna.Lookup.ToASCII(host); err == nil {
		host = ascii
	}
	host = canonicalHost(host)
	if g.byName(net.JoinHostPort(host, port)) {
		return nil
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return g.Check(net.JoinHostPort(ip.String(), port))
	}
	if numeric(host) {
		ip, err := parseNumeric(host)
		if err != nil {
			return err
		}
		return g.Check(net.JoinHostPort(ip.String(), port))
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return &Refused{netip.IPv6Loopback(), "this machine"}
	}
	resolver := g.resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	ips, err := resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil
	}
	for _, ip := range ips {
		if err := g.Check(net.JoinHostPort(ip.String(), port)); err != nil {
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

// NotPublic says what kind of address ip is, or nothing for a public one.
func NotPublic(ip netip.Addr) string {
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
		if kind := NotPublic(v4); kind != "" {
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
