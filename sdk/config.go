package sdk

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// Config binds a plugin's settings to a struct T with hcl tags:
//
//	type Settings struct {
//		AllowHosts []string     `hcl:"allow_hosts,optional" doc:"…"`
//		Timeout    sdk.Duration `hcl:"timeout,optional"`
//		Data       string       `hcl:"data" bulkhead:"path=read"`
//		Search     []Search     `hcl:"search,block"`
//	}
//	type Search struct {
//		Name string `hcl:"name,label"`
//		Key  string `hcl:"api_key" bulkhead:"sensitive"`
//	}
//
// An attribute is required unless its tag says optional. A slice of structs is a
// repeatable block; a struct or a pointer to one is a block that may stand once
// (bulkhead:"required" makes it, or at least one of a slice, obligatory). The tag
// bulkhead takes sensitive, required, path=read|write|exec, duration and size; of
// the types Duration and Size the quantity is known. Elements of repeated blocks
// and pointers start from zero, or from what a method Defaults() on their pointer
// sets.
type Config[T any] struct {
	// Validate checks decoded settings beyond their types. It has no effect on
	// anything else and may be called at any time, in parallel.
	Validate func(ctx context.Context, c *T) Diagnostics
	// Configure takes the settings before the plugin is active: no background
	// work, connection or file of its own yet.
	Configure func(ctx context.Context, c *T) error
	// Reconfigure takes new settings on a configured plugin and reports whether it
	// did; when it says no, or is absent, the host starts a new generation.
	Reconfigure func(ctx context.Context, old, new *T) (bool, error)

	defaults T
	mu       sync.Mutex // held while configuring
	raw      []byte
	current  atomic.Pointer[T]
}

// NewConfig makes the binding; defaults are what the settings are before the
// operator's values are read over them. It panics when T's tags make no sense.
func NewConfig[T any](defaults T) *Config[T] {
	c := &Config[T]{defaults: defaults}
	if _, err := bodyOf(reflect.ValueOf(&c.defaults).Elem()); err != nil {
		panic(fmt.Sprintf("sdk.NewConfig: %v", err))
	}
	return c
}

// Get gives the settings in force; before Configure the defaults. Don't change
// what it points to.
func (c *Config[T]) Get() *T {
	if v := c.current.Load(); v != nil {
		return v
	}
	return &c.defaults
}

// Settings is implemented by *Config; it is sealed.
type Settings interface {
	body() *pluginv1.ConfigBody
	validate(ctx context.Context, raw []byte) Diagnostics
	configure(ctx context.Context, raw []byte, again bool) (configured, Diagnostics, error)
}

type configured int

const (
	taken configured = iota
	needsRestart
)

func (c *Config[T]) body() *pluginv1.ConfigBody {
	body, err := bodyOf(reflect.ValueOf(&c.defaults).Elem())
	if err != nil {
		panic(err) // NewConfig has looked already
	}
	return body
}

func (c *Config[T]) decode(raw []byte) (*T, Diagnostics) {
	fresh := deepCopy(reflect.ValueOf(&c.defaults).Elem()).Addr().Interface().(*T)
	diags := decodeBody(raw, reflect.ValueOf(fresh).Elem(), Path{})
	return fresh, diags
}

func (c *Config[T]) validate(ctx context.Context, raw []byte) Diagnostics {
	v, diags := c.decode(raw)
	if !diags.HasErrors() && c.Validate != nil {
		diags = append(diags, c.Validate(ctx, v)...)
	}
	return diags
}

func (c *Config[T]) configure(ctx context.Context, raw []byte, again bool) (configured, Diagnostics, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if again && bytes.Equal(raw, c.raw) {
		return taken, nil, nil
	}
	v, diags := c.decode(raw)
	if !diags.HasErrors() && c.Validate != nil {
		diags = append(diags, c.Validate(ctx, v)...)
	}
	if diags.HasErrors() {
		return 0, diags, nil
	}
	switch {
	case again && c.Reconfigure == nil:
		return needsRestart, diags, nil
	case again:
		ok, err := c.Reconfigure(ctx, c.current.Load(), v)
		if err != nil || !ok {
			return needsRestart, diags, err
		}
	case c.Configure != nil:
		if err := c.Configure(ctx, v); err != nil {
			return 0, diags, err
		}
	}
	c.raw = bytes.Clone(raw)
	c.current.Store(v)
	return taken, diags, nil
}
