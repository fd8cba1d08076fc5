package search

import (
	"bytes"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// ignoreFiles name what is left out, the later before the earlier.
var ignoreFiles = []string{".gitignore", ".ignore", ".rgignore"}

const (
	maxIgnoreFile = 1 << 20
	maxRules      = 5000
)

// rule is a line of an ignore file.
type rule struct {
	glob     string // relative to the folder of the file
	keep     bool   // !…: not left out after all
	folders  bool   // …/: folders only
	anywhere bool   // without a slash: a name at any depth
	plain    bool   // no special characters
}

// ignores are the rules of one folder; those of the folders above stand in up.
type ignores struct {
	up    *ignores
	base  string // the folder, from the root of the search
	rules []rule
	// Most rules are a plain name or an extension; these are found by one lookup.
	names    map[string][]int
	suffixes map[string][]int
	others   []int
}

func newIgnores(up *ignores, base string, raw []byte) *ignores {
	g := &ignores{up: up, base: base, names: map[string][]int{}, suffixes: map[string][]int{}}
	for line := range bytes.Lines(bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))) {
		if r, ok := parseRule(string(bytes.TrimRight(line, "\r\n"))); ok && len(g.rules) < maxRules {
			g.add(r)
		}
	}
	if len(g.rules) == 0 {
		return up
	}
	return g
}

func (g *ignores) add(r rule) {
	i := len(g.rules)
	g.rules = append(g.rules, r)
	ext := strings.TrimPrefix(r.glob, "*")
	switch {
	case r.anywhere && r.plain:
		g.names[r.glob] = append(g.names[r.glob], i)
	case r.anywhere && strings.HasPrefix(r.glob, "*.") && !strings.ContainsAny(ext, `*?[\{`) && strings.Count(ext, ".") == 1:
		g.suffixes[ext] = append(g.suffixes[ext], i)
	default:
		g.others = append(g.others, i)
	}
}

// parseRule reads a line by gitignore's rules.
func parseRule(line string) (r rule, ok bool) {
	if strings.HasPrefix(line, "#") {
		return r, false
	}
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	if strings.HasPrefix(line, "!") {
		r.keep, line = true, line[1:]
	}
	if strings.HasSuffix(line, "/") {
		r.folders, line = true, strings.TrimSuffix(line, "/")
	}
	r.anywhere = !strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return r, false
	}
	r.plain = !strings.ContainsAny(line, `*?[\`)
	// Braces are alternatives to the matcher, and plain characters to git.
	r.glob = strings.NewReplacer("{", `\{`, "}", `\}`).Replace(line)
	if r.plain {
		r.glob = line
	} else if !doublestar.ValidatePattern(r.glob) {
		return r, false
	}
	return r, true
}

// leaveOut says whether an entry is left out. name is its path from the root of the
// search.
func (g *ignores) leaveOut(name string, folder bool) bool {
	base := path.Base(name)
	for ; g != nil; g = g.up {
		if i := g.last(name, base, folder); i >= 0 {
			return !g.rules[i].keep
		}
	}
	return false
}

// last is the last rule that an entry matches, -1 = none.
func (g *ignores) last(name, base string, folder bool) int {
	found := -1
	look := func(list []int, sure bool) {
		for _, i := range list {
			r := &g.rules[i]
			if i > found && (folder || !r.folders) && (sure || r.matches(g.relative(name), base)) {
				found = i
			}
		}
	}
	look(g.names[base], true)
	look(g.suffixes[path.Ext(base)], true)
	look(g.others, false)
	return found
}

func (g *ignores) relative(name string) string {
	if g.base == "." {
		return name
	}
	return strings.TrimPrefix(name, g.base+"/")
}

func (r *rule) matches(name, base string) bool {
	if r.anywhere {
		name = base
	}
	if r.plain {
		return name == r.glob
	}
	ok, err := doublestar.Match(r.glob, name)
	return ok && err == nil
}

// globs are the patterns a caller chooses files by: those with ! leave out, and when
// there are others a file must match one of them.
type globs struct {
	in, out []rule
}

func newGlobs(patterns []string) (globs, error) {
	var g globs
	for _, p := range patterns {
		out := strings.HasPrefix(p, "!")
		p = strings.TrimPrefix(p, "!")
		if strings.HasSuffix(p, "/") {
			p += "**"
		}
		r := rule{glob: strings.TrimPrefix(p, "/"), anywhere: !strings.Contains(p, "/")}
		if r.glob == "" || len(p) > 1000 || !doublestar.ValidatePattern(r.glob) {
			return g, badGlob(p)
		}
		if out {
			g.out = append(g.out, r)
		} else {
			g.in = append(g.in, r)
		}
	}
	return g, nil
}

type badGlob string

func (g badGlob) Error() string {
	return "the glob " + string(g) + " can't be read; *.go, src/** and !vendor/** are examples"
}

func (g globs) takes(name string) bool {
	base := path.Base(name)
	for i := range g.out {
		if g.out[i].matches(name, base) {
			return false
		}
	}
	for i := range g.in {
		if g.in[i].matches(name, base) {
			return true
		}
	}
	return len(g.in) == 0
}
