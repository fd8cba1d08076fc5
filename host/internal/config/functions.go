package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/sdk/regular"
)

// sensitiveMark marks values that must not be shown.
type sensitiveMark struct{}

const (
	maxIncluded = 1 << 20 // bytes of a file() value
	maxSecret   = 64 << 10
)

var secretName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// context makes the functions for one attribute; saw is told every value they
// return.
func (e *evaluator) context(saw func(cty.Value)) *hcl.EvalContext {
	make := func(impl func(string, []cty.Value) (cty.Value, error), rest *function.Parameter) function.Function {
		return function.New(&function.Spec{
			Params:   []function.Parameter{{Name: "name", Type: cty.String}},
			VarParam: rest,
			Type:     function.StaticReturnType(cty.String),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				v, err := impl(args[0].AsString(), args[1:])
				if err == nil {
					saw(v)
				}
				return v, err
			},
		})
	}
	fallback := &function.Parameter{Name: "default", Type: cty.String, AllowNull: true}
	return &hcl.EvalContext{Functions: map[string]function.Function{
		"env":     make(e.env, fallback),
		"file":    make(e.file, nil),
		"secret":  make(e.secret, nil),
		"abspath": make(func(p string, _ []cty.Value) (cty.Value, error) { return cty.StringVal(e.absolute(p)), nil }, nil),
	}}
}

func (e *evaluator) env(name string, rest []cty.Value) (cty.Value, error) {
	if len(rest) > 1 {
		return cty.NilVal, fault.New(fault.ConfigValue, `env takes a name and at most one default`)
	}
	if v, ok := os.LookupEnv(name); ok {
		if !utf8.ValidString(v) {
			return cty.NilVal, fault.New(fault.ConfigValue, "environment variable %s is not valid UTF-8", name)
		}
		return cty.StringVal(v), nil
	}
	if len(rest) == 1 {
		return rest[0], nil
	}
	return cty.NilVal, fault.New(fault.ConfigValue, `environment variable %s is not set; set it, or give a default: env(%q, "")`, name, name)
}

func (e *evaluator) absolute(path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(e.base, path)
	}
	return filepath.Clean(path)
}

func (e *evaluator) file(path string, _ []cty.Value) (cty.Value, error) {
	data, _, err := readRegular(e.absolute(path), maxIncluded)
	if err != nil {
		return cty.NilVal, fault.New(fault.ConfigValue, "file %q can't be read; %w", path, err)
	}
	return cty.StringVal(data), nil
}

func (e *evaluator) secret(name string, _ []cty.Value) (cty.Value, error) {
	if e.secretsDir == "" {
		return cty.NilVal, fault.New(fault.ConfigSecret, "secret() can't be used here; secrets stand in data_dir, which this block sets")
	}
	if !secretName.MatchString(name) {
		return cty.NilVal, fault.New(fault.ConfigSecret, "secret %q is not a file name; use letters, digits, dot, dash and underscore", name)
	}
	path := filepath.Join(e.secretsDir, name)
	data, mode, err := readRegular(path, maxSecret)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return cty.NilVal, fault.New(fault.ConfigSecret, "secret %q does not exist; write it to %s with mode 0600", name, path)
	case err != nil:
		return cty.NilVal, fault.New(fault.ConfigSecret, "secret %q can't be read; %w", name, err)
	case runtime.GOOS != "windows" && mode.Perm()&0o077 != 0:
		return cty.NilVal, fault.New(fault.ConfigSecret, "secret %q is readable by others (mode %04o); chmod 600 %s", name, mode.Perm(), path)
	}
	value := strings.TrimRight(data, "\r\n")
	if value == "" {
		return cty.NilVal, fault.New(fault.ConfigSecret, "secret %q is empty; write it to %s", name, path)
	}
	e.scrub.add(value)
	return cty.StringVal(value).Mark(sensitiveMark{}), nil
}

// readRegular reads a small regular file as text. It follows no link to a
// secret's place and never blocks on a pipe, for it looks before it opens.
func readRegular(path string, limit int64) (string, os.FileMode, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", 0, plain(err)
	}
	if !info.Mode().IsRegular() {
		if info.Mode()&os.ModeSymlink == 0 {
			return "", 0, errors.New("it is not a regular file")
		}
		if info, err = os.Stat(path); err != nil {
			return "", 0, plain(err)
		}
		if !info.Mode().IsRegular() {
			return "", 0, errors.New("it is not a regular file")
		}
	}
	f, err := regular.Open(path)
	if err != nil {
		return "", 0, plain(err)
	}
	defer f.Close()
	opened, err := f.Stat()
	if err != nil {
		return "", 0, plain(err)
	}
	if !os.SameFile(info, opened) {
		return "", 0, errors.New("it changed while it was read")
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return "", 0, plain(err)
	case int64(len(data)) > limit:
		return "", 0, fmt.Errorf("it is larger than %d KiB", limit>>10)
	case !utf8.Valid(data):
		return "", 0, errors.New("it is not UTF-8 text")
	}
	return string(data), opened.Mode(), nil
}

// plain drops operation and path, which the message already has.
func plain(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
