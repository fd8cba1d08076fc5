package netguard

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestAddressesByKind(t *testing.T) {
	for _, ip := range []string{
		"127.0.0.1", "127.8.8.8", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
		"169.254.1.1", "169.254.169.254", "100.64.0.1", "100.127.255.255", "192.0.0.8", "192.0.2.1", "198.18.0.1",
		"198.51.100.7", "203.0.113.7", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"::", "::1", "fe80::1", "fc00::1", "fd12::1", "fd00:ec2::254", "fec0::1", "ff02::1", "ff05::2", "2001:db8::1", "3fff::1",
		"::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", // IPv4-mapped
		"::127.0.0.1", "::10.1.1.1", // IPv4-compatible
		"64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b:1::1", // NAT64
		"2002:7f00:1::", "2002:a00:1::1", "2002:c0a8:101::", // 6to4
		"2001:0:1234::1",                // Teredo
		"2606:4700::5efe:7f00:1",        // ISATAP
		"2606:4700::200:5efe:c0a8:0101", // ISATAP with the universal bit
		"100::1", "192.88.99.1",
	} {
		if NotPublic(netip.MustParseAddr(ip).Unmap()) == "" {
			t.Errorf("%s passes for public", ip)
		}
	}
	for _, ip := range []string{
		"1.1.1.1", "8.8.8.8", "93.184.216.34", "100.63.255.255", "100.128.0.1", "172.32.0.1", "198.20.0.1", "223.255.255.255",
		"2606:4700::1111", "2a00:1450:4001::1", "64:ff9b::808:808", "2002:808:808::1", "::ffff:8.8.8.8",
	} {
		if kind := NotPublic(netip.MustParseAddr(ip).Unmap()); kind != "" {
			t.Errorf("%s is refused as %s", ip, kind)
		}
	}
}

func TestAllowHosts(t *testing.T) {
	g, err := New([]string{"Intranet.Example.", "db.example:8443", "10.1.0.0/16", "192.168.1.7", "192.168.1.8:81", "fd00::/8", "[fd77::1]:80", "::ffff:172.16.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]bool{
		"intranet.example:80": true, "INTRANET.example.:9999": true, "db.example:8443": true, "db.example:443": false,
		"sub.intranet.example:80": false,
	} {
		if got := g.byName(address); got != want {
			t.Errorf("by name %s: %v", address, got)
		}
	}
	for address, want := range map[string]bool{
		"10.1.2.3:80": true, "10.2.0.1:80": false, "192.168.1.7:5": true, "192.168.1.8:81": true, "192.168.1.8:82": false,
		"[fd00::1]:80": true, "[::ffff:10.1.2.3]:80": true, "127.0.0.1:80": false, "172.16.0.1:80": true, "8.8.8.8:53": true,
		"[fe80::1%eth0]:80": false,
	} {
		if err := g.Check(address); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, bad := range []string{"", "http://x", "a b", "10.0.0.0/33", "x:0", "x:http", "*.example", "user@x", "x/y"} {
		if _, err := parseAllowed(bad); err == nil {
			t.Errorf("%q is taken for a host", bad)
		}
	}
}

// A number is an address in whatever way it is written, for a proxy may read it so
// where the resolver of this machine does not.
func TestCheckTarget(t *testing.T) {
	g, err := New([]string{"allowed.localhost", "10.9.0.0/16"})
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{
		"127.0.0.1", "127.0.0.1.", "127.1", "127.1.", "127.0.1", "0x7f000001", "0X7F000001", "2130706433", "017700000001", "0x7f.1", "0x7f.0.0.0x1", "0177.0.0.1", "0177.1",
		"0", "0.", "0x0", "00", "0x", "10.1", "10.0x1", "0xa9fea9fe", "2852039166", "169.254.43518", "192.168.257", "0xc0.0250.1.1", "１２７.0.0.1", "127。1",
		"::1", "::ffff:127.0.0.1", "localhost", "LOCALHOST.", "a.localhost",
	} {
		var refused *Refused
		if err := g.CheckTarget(t.Context(), host, "80"); !errors.As(err, &refused) {
			t.Errorf("%s: %v", host, err)
		}
	}
	for _, host := range []string{"1.2.3.4.5", "256.1", "08", "1.2.3.256", "4294967296", "example.256", "x.1"} {
		if err := g.CheckTarget(t.Context(), host, "80"); err == nil || !strings.Contains(err.Error(), "looks like an address and is none") {
			t.Errorf("%s: %v", host, err)
		}
	}
	for _, host := range []string{"8.8.8.8", "8.8.2056", "134744072", "0x8080808", "10.9.1", "allowed.localhost", "only-the-proxy-knows.invalid", "0xcafe.invalid", "1e100.invalid"} {
		if err := g.CheckTarget(t.Context(), host, "80"); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}
