package netguard

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// numeric says whether somebody may read a host as an IPv4 address in one of its
// old spellings: its last part is a number. No public name ends in one.
func numeric(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	if digits, hex := strings.CutPrefix(last, "0x"); hex {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

// parseNumeric reads what inet_aton reads: one to four numbers, decimal, octal or
// hexadecimal, the last of which fills the bytes that are left. The host is in
// lower case and has no dot at its end.
func parseNumeric(host string) (netip.Addr, error) {
	parts := strings.Split(host, ".")
	bad := fmt.Errorf("%q looks like an address and is none", host)
	if len(parts) > 4 {
		return netip.Addr{}, bad
	}
	var sum uint64
	for i, part := range parts {
		digits, base := part, 10
		switch {
		case strings.HasPrefix(part, "0x"):
			digits, base = part[2:], 16
			if digits == "" {
				digits = "0" // as in browsers
			}
		case len(part) > 1 && part[0] == '0':
			base = 8
		}
		n, err := strconv.ParseUint(digits, base, 64)
		room := 8 // bits
		if i == len(parts)-1 {
			room = 8 * (5 - len(parts))
		}
		if err != nil || n >= 1<<room {
			return netip.Addr{}, bad
		}
		sum = sum<<room | n
	}
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(sum)))), nil
}
