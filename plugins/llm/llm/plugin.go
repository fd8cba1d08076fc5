package llm

import (
	"context"
	"sync/atomic"

	"github.com/bulkhead-dev/bulkhead/plugins/llm/account"
	"github.com/bulkhead-dev/bulkhead/plugins/llm/chat"
	"github.com/bulkhead-dev/bulkhead/plugins/llm/openai"
	"github.com/bulkhead-dev/bulkhead/plugins/llm/wire"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// Version of the plugin.
const Version = "0.1.0"

// gateway is the plugin at work.
type gateway struct {
	plugin *sdk.Plugin
	conf   *sdk.Config[settings]
	book   *account.Book
	active atomic.Pointer[active]
}

// active is what one set of settings makes.
type active struct {
	*settings
	models   map[string]*model
	speaks   map[string]chat.Provider // by tier
	embedder chat.Provider
}

// Plugin builds the plugin.
func Plugin() *sdk.Plugin {
	g := &gateway{conf: sdk.NewConfig(defaults())}
	g.conf.Validate = validate
	g.conf.Configure = func(_ context.Context, s *settings) error { g.apply(s); return nil }
	g.conf.Reconfigure = func(_ context.Context, old, fresh *settings) (bool, error) {
		if (old.Embedder == nil) != (fresh.Embedder == nil) {
			return false, nil // another offer, so another generation
		}
		g.apply(fresh)
		return true, nil
	}
	g.plugin = &sdk.Plugin{
		Name: "llm", Version: Version,
		Settings: g.conf,
		Tools:    []*sdk.Tool{g.generateTool(), g.modelsTool()},
		Grants:   []string{"shared"},
		Sandbox:  sdk.Sandbox{Profile: "strict", Network: "all"},
		Swap:     sdk.Handover, // two must not count in one book
		Activate: func(context.Context) error {
			if g.active.Load().embedder == nil {
				return nil
			}
			return g.plugin.Offers().Set("embedder", sdk.Offer{Tools: []*sdk.Tool{g.embedTool()}})
		},
	}
	g.book = account.New(func() account.State { return g.plugin.Host().State() })
	return g.plugin
}

func (g *gateway) apply(s *settings) {
	a := &active{settings: s, models: map[string]*model{}, speaks: map[string]chat.Provider{}}
	secrets := s.secrets()
	for i := range s.Models {
		m := &s.Models[i]
		a.models[m.Tier] = m
		a.speaks[m.Tier] = m.provider(wire.New(s.Idle.Std(), secrets...))
	}
	if e := s.Embedder; e != nil {
		base := e.BaseURL
		if base == "" {
			base = openai.BaseURL
		}
		a.embedder = openai.New(base, e.APIKey, wire.New(s.Idle.Std(), secrets...))
	}
	g.active.Store(a)
}
