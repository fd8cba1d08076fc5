package guard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/splice"
)

// pathPrefix lets path arguments name places below given folders only. It looks
// at the text of paths: the server's file system is not here to be asked.
type pathPrefix struct {
	args    []string
	paths   []splice.Path
	allowed []string // clean, without a slash at the end
	shown   string
	require bool
}

func newPathPrefix(options json.RawMessage) (*pathPrefix, error) {
	var o struct {
		Args     []string
		Prefixes []string
		Require  bool
	}
	var m map[string]json.RawMessage
	if len(bytes.TrimSpace(options)) > 0 && json.Unmarshal(options, &m) != nil {
		return nil, errors.New(`options are an object: { args = ["path"], allowed_prefixes = ["/shared"] }`)
	}
	for key, raw := range m {
		// Snake, camel and Pascal case are all in use.
		var into any
		switch strings.ToLower(strings.ReplaceAll(key, "_", "")) {
		case "args":
			into = &o.Args
		case "allowedprefixes":
			into = &o.Prefixes
		case "requireargs":
			into = &o.Require
		default:
			return nil, fmt.Errorf("options: %q is not known; args, allowed_prefixes and require_args are", key)
		}
		if err := json.Unmarshal(raw, into); err != nil {
			return nil, fmt.Errorf("options: %s is of the wrong type: args and allowed_prefixes are lists of texts, require_args is true or false", key)
		}
	}
	p := &pathPrefix{args: o.Args, require: o.Require}
	if len(o.Args) == 0 {
		return nil, errors.New(`options: args is empty; it names the arguments to look at, as in args = ["save_directory"]`)
	}
	if len(o.Prefixes) == 0 {
		return nil, errors.New(`options: allowed_prefixes is empty, which allows nothing; as in allowed_prefixes = ["/shared"]`)
	}
	for _, a := range o.Args {
		path, err := splice.ParsePath(a)
		if err != nil {
			return nil, fmt.Errorf("options: args: %w", err)
		}
		p.paths = append(p.paths, path)
	}
	for _, prefix := range o.Prefixes {
		clean, err := cleanPath(prefix)
		if err != nil {
			return nil, fmt.Errorf("options: allowed_prefixes: %q %w", prefix, err)
		}
		p.allowed = append(p.allowed, clean)
	}
	p.shown = strings.Join(o.Prefixes, ", ")
	return p, nil
}

func (p *pathPrefix) check(args json.RawMessage) error {
	for i, path := range p.paths {
		seen := false
		err := path.Look(args, func(v json.RawMessage) error {
			seen = true
			return p.value(p.args[i], v)
		}, func(o splice.Odd) error {
			kind := "an object"
			if o.List {
				kind = "a list"
			}
			return fmt.Errorf("%q can't be looked at: %s is wanted on the way to it, not %s", p.args[i], kind, clip(string(o.Value), 200))
		})
		if err != nil {
			return err
		}
		if !seen && p.require {
			return fmt.Errorf("%q is missing; it is required here, and must be an absolute path below %s", p.args[i], p.shown)
		}
	}
	return nil
}

func (p *pathPrefix) value(name string, raw json.RawMessage) error {
	var text *string
	if json.Unmarshal(raw, &text) != nil || text == nil || strings.TrimSpace(*text) == "" {
		return fmt.Errorf("%q is %s; an absolute path below %s is wanted", name, clip(string(raw), 200), p.shown)
	}
	clean, err := cleanPath(*text)
	if err == nil && !slices.ContainsFunc(p.allowed, func(a string) bool { return clean == a || strings.HasPrefix(clean, a+"/") }) {
		err = errors.New("lies elsewhere")
	}
	if err != nil {
		return fmt.Errorf("%q is %q, which %w: it must be an absolute path below %s, since other paths are local to the server's own machine and out of everyone else's reach", name, clip(*text, 300), err, p.shown)
	}
	return nil
}

// cleanPath takes dots and double slashes out of an absolute path. The root is "".
func cleanPath(path string) (string, error) {
	path = strings.ReplaceAll(path, `\`, "/")
	switch {
	case strings.ContainsRune(path, 0):
		return "", errors.New("holds a NUL")
	case !strings.HasPrefix(path, "/"):
		return "", errors.New("is not absolute")
	}
	var out []string
	for part := range strings.SplitSeq(path, "/") {
		switch part {
		case "", ".":
		case "..":
			if len(out) == 0 {
				return "", errors.New("rises above the root")
			}
			out = out[:len(out)-1]
		default:
			out = append(out, part)
		}
	}
	if len(out) == 0 {
		return "", nil
	}
	return "/" + strings.Join(out, "/"), nil
}
