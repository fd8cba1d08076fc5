package naming

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Max is the most characters a name may have.
const Max = 64

// hashLen is the hex digits of a hash at a name's end.
const hashLen = 8

// Clean replaces every character a name may not hold by -.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '-'
	}, s)
}

// Scheme is how the names of one server are made.
type Scheme struct {
	Server string
	Bare   bool // the server's own names, without its prefix
	// Taken says that a name is another's; nil = none is. What would have it is named
	// with a hash, as where two names of the server are alike.
	Taken func(name string) bool
}

func (s Scheme) taken(name string) bool { return s.Taken != nil && s.Taken(name) }

// Tools gives a typed name for each of a server's tools, in order. Names the
// server uses twice get one typed name: the later is empty.
func (s Scheme) Tools(tools []string) []string {
	return s.names(tools, "", map[string]bool{})
}

// Prompts gives the names of the tools that stand for prompts; none is one of
// taken.
func (s Scheme) Prompts(prompts, taken []string) []string {
	used := map[string]bool{}
	for _, n := range taken {
		used[n] = true
	}
	return s.names(prompts, "-prompt", used)
}

func (s Scheme) names(originals []string, suffix string, used map[string]bool) []string {
	out := make([]string, len(originals))
	// Those that stay as they are come first, so that none of them has to give
	// way to one that was changed.
	seen := map[string]bool{}
	for i, name := range originals {
		plain, exact := s.plain(name, suffix)
		if seen[name] || name == "" {
			continue
		}
		if exact && !used[plain] && !s.taken(plain) {
			out[i], used[plain], seen[name] = plain, true, true
		}
	}
	claims := map[string]int{}
	for i, name := range originals {
		if out[i] == "" && !seen[name] {
			plain, _ := s.plain(name, suffix)
			claims[plain]++
		}
	}
	for i, name := range originals {
		if out[i] != "" || seen[name] || name == "" {
			continue
		}
		seen[name] = true
		plain, _ := s.plain(name, suffix)
		if len(plain) > Max || used[plain] || s.taken(plain) || claims[plain] > 1 || strings.Trim(Clean(name), "-") == "" {
			plain = s.hashed(name, suffix)
		}
		if used[plain] {
			continue // two hashes alike: the first keeps it
		}
		out[i], used[plain] = plain, true
	}
	return out
}

// plain is the readable name and whether it says the original exactly.
func (s Scheme) plain(name, suffix string) (string, bool) {
	plain := s.prefix() + Clean(name) + suffix
	return plain, Clean(name) == name && len(plain) <= Max
}

// prefix is the server's part. A server's name that had to be changed carries a
// hash, since another server may be changed into the same.
func (s Scheme) prefix() string {
	if s.Bare {
		return ""
	}
	clean := Clean(s.Server)
	if clean != s.Server {
		clean = cut(clean, 24) + "-" + hash(s.Server)[:4]
	}
	return clean + "__"
}

func (s Scheme) hashed(name, suffix string) string {
	h := "-" + hash(s.Server + "\x00" + name + "\x00" + suffix)[:hashLen]
	prefix := cut(s.prefix(), Max/2)
	room := Max - len(prefix) - len(h) - len(suffix)
	return prefix + strings.TrimRight(cut(Clean(name), room), "-") + h + suffix
}

func cut(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
