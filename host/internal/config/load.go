package config

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/sdk/regular"
)

const (
	maxFile    = 1 << 20 // bytes of a config file
	maxNesting = 64      // brackets inside one another
)

// Find says which config file is meant: the one named, else ./config.hcl, else
// the one in the user's config folder. It is empty when none was named and
// none is there; Load then gives the defaults.
func Find(flag string) (string, error) {
	if flag != "" {
		if _, err := os.Stat(flag); err != nil {
			return "", fault.New(fault.ConfigMissing, "config file %s: %w", flag, plain(err))
		}
		return flag, nil
	}
	candidates := []string{"config.hcl"}
	if dir, err := os.UserConfigDir(); err == nil {
		candidates = append(candidates, filepath.Join(dir, "bulkhead", "config.hcl"))
	}
	for _, c := range candidates {
		_, err := os.Stat(c)
		switch {
		case err == nil:
			return c, nil
		case !errors.Is(err, os.ErrNotExist):
			return "", fault.New(fault.ConfigMissing, "config file %s: %w", c, plain(err))
		}
	}
	return "", nil
}

// Load reads, checks and evaluates a config file, all but the plugins' config
// blocks. An empty path gives the defaults. The Config is never nil; it is to
// be used only when the diagnostics hold no error.
func Load(path string) (*Config, hcl.Diagnostics) {
	if path == "" {
		return Parse("", nil)
	}
	src, err := Text(path)
	if err != nil {
		return broken(path, fault.ConfigMissing, "the config file can't be read", plain(err).Error())
	}
	return Parse(path, src)
}

// Text is the text of a config file, cut a byte after the most one may have.
func Text(path string) ([]byte, error) {
	f, err := regular.Open(path)
	if errors.Is(err, regular.ErrNotRegular) {
		return nil, errors.New("it is not a regular file")
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

func broken(path string, ref fault.Ref, summary, detail string) (*Config, hcl.Diagnostics) {
	c := &Config{File: path}
	start := hcl.Range{Filename: path, Start: hcl.InitialPos, End: hcl.InitialPos}
	return c, hcl.Diagnostics{problem(ref, start, summary, detail)}
}

// Parse is Load for a text that is already read. path names it and says where
// relative paths start.
func Parse(path string, src []byte) (*Config, hcl.Diagnostics) {
	if len(src) > maxFile {
		return broken(path, fault.ConfigSyntax, "the config file is too large", fmt.Sprintf("at most %d KiB", maxFile>>10))
	}
	dir := "."
	if path != "" {
		dir = filepath.Dir(path)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return broken(path, fault.ConfigMissing, "the folder of the config file is unknown", err.Error())
	}
	c := &Config{File: path, Dir: dir, Sum: sha256.Sum256(src), sources: Sources{}}
	shown, bad := display(path, src)
	if path != "" {
		c.sources[path] = shown
	}
	e := &evaluator{base: dir, scrub: &c.scrub}
	c.defaults(e)
	if bad != nil {
		return c, hcl.Diagnostics{bad}
	}
	file, diags := hclsyntax.ParseConfig(src, path, hcl.InitialPos)
	if diags.HasErrors() {
		c.guessHost(dir, src, file)
		var out hcl.Diagnostics
		for _, d := range diags {
			out = append(out, own(fault.ConfigSyntax, d))
		}
		return c, sorted(out)
	}
	root := file.Body.(*hclsyntax.Body)
	c.Bare = path != "" && len(root.Blocks)+len(root.Attributes) == 0

	// The host block comes first, for secret() needs its data_dir.
	hosts, rest := split(root, "host")
	top := e.walk(hosts, root.MissingItemRange(), hostSchema)
	e.checking = true
	e.decodeHost(c, top)
	e.checking, e.secretsDir = false, c.Host.SecretsDir()
	top = e.walk(rest, root.MissingItemRange(), hostSchema)
	e.checking = true
	e.decode(c, top)
	c.mask(e.masked)
	return c, c.scrub.diags(sorted(e.diags))
}

// guessHost finds, in a text that can't be parsed, which data_dir is meant: a host
// that runs can then be reached all the same. The rest of such a Config is not to be
// used.
func (c *Config) guessHost(dir string, src []byte, file *hcl.File) {
	e := &evaluator{base: dir, scrub: &c.scrub}
	if body, ok := file.Body.(*hclsyntax.Body); ok {
		hosts, _ := split(body, "host")
		top := e.walk(hosts, body.MissingItemRange(), hostSchema)
		e.decodeHost(c, top)
		for _, b := range hosts.Blocks {
			if b.Body.Attributes["data_dir"] != nil {
				return
			}
		}
	}
	tokens, _ := hclsyntax.LexConfig(src, c.File, hcl.InitialPos) // lexing never fails
	for i := 4; i < len(tokens); i++ {
		t := tokens[i-4 : i+1]
		if string(t[0].Bytes) == "data_dir" && t[1].Type == hclsyntax.TokenEqual && t[2].Type == hclsyntax.TokenOQuote &&
			t[3].Type == hclsyntax.TokenQuotedLit && t[4].Type == hclsyntax.TokenCQuote {
			c.Host.DataDir = e.absolute(string(t[3].Bytes))
			return
		}
	}
}

// split parts the blocks of one type from everything else in a body.
func split(b *hclsyntax.Body, typeName string) (only, rest *hclsyntax.Body) {
	o, r := *b, *b
	o.Attributes, o.Blocks, r.Blocks = nil, nil, nil
	for _, block := range b.Blocks {
		if block.Type == typeName {
			o.Blocks = append(o.Blocks, block)
		} else {
			r.Blocks = append(r.Blocks, block)
		}
	}
	return &o, &r
}

var hugeExponent = regexp.MustCompile(`[eE][+-]?[0-9]{5,}$`)

// tooDeep bounds what the recursive parser and evaluator are given.
func tooDeep(path string, tokens hclsyntax.Tokens) *hcl.Diagnostic {
	depth, operators := 0, 0
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen,
			hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl, hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc:
			depth++
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen,
			hclsyntax.TokenTemplateSeqEnd, hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc:
			depth--
		case hclsyntax.TokenBang, hclsyntax.TokenMinus, hclsyntax.TokenQuestion, hclsyntax.TokenColon, hclsyntax.TokenFatArrow,
			hclsyntax.TokenPlus, hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPercent,
			hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenDot:
			operators++
		case hclsyntax.TokenNewline, hclsyntax.TokenComma:
			operators = 0
		case hclsyntax.TokenNumberLit:
			if hugeExponent.Match(t.Bytes) {
				return problem(fault.ConfigSyntax, t.Range, "the number is out of range", "")
			}
		}
		if depth > maxNesting || operators > 1000 {
			return problem(fault.ConfigSyntax, t.Range, "the config is nested too deeply", fmt.Sprintf("at most %d levels", maxNesting))
		}
	}
	return nil
}
