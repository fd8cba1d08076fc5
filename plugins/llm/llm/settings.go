package llm

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/llm/account"
	"github.com/bulkhead-dev/bulkhead/plugins/llm/anthropic"
	"github.com/bulkhead-dev/bulkhead/plugins/llm/chat"
	"github.com/bulkhead-dev/bulkhead/plugins/llm/openai"
	"github.com/bulkhead-dev/bulkhead/plugins/llm/wire"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// tiers of models, and which stand in for one that has no model.
var tiers = []string{"low", "balanced", "high"}

var standIns = map[string][]string{
	"low":      {"low", "balanced", "high"},
	"balanced": {"balanced", "high", "low"},
	"high":     {"high", "balanced", "low"},
}

// settings of the plugin, as in its config block.
type settings struct {
	Models   []model      `hcl:"model,block" doc:"The model of a tier: low, balanced or high."`
	Embedder *embedder    `hcl:"embedder,block" doc:"The model that turns texts into vectors."`
	Budgets  []budget     `hcl:"budget,block" doc:"What an agent may use in a day (UTC); default is for those without a block of their own."`
	Retries  int          `hcl:"max_retries,optional" doc:"Repetitions when a provider is busy or fails before it has begun to answer."`
	Idle     sdk.Duration `hcl:"idle_timeout,optional" doc:"Longest silence of a provider that is asked."`
	Timeout  sdk.Duration `hcl:"timeout,optional" doc:"Time for one answer, repetitions included."`
	MaxImage sdk.Size     `hcl:"max_image,optional" doc:"Largest image or recording that is sent."`
}

type model struct {
	Tier         string   `hcl:"tier,label"`
	Provider     string   `hcl:"provider" doc:"openai (and all that speak its API), or anthropic."`
	BaseURL      string   `hcl:"base_url,optional" doc:"Address of the API; the provider's own without it."`
	Model        string   `hcl:"model" doc:"The provider's name of the model."`
	APIKey       string   `hcl:"api_key,optional" bulkhead:"sensitive" doc:"Key of the provider."`
	ImageInput   bool     `hcl:"image_input,optional" doc:"It sees images."`
	AudioInput   bool     `hcl:"audio_input,optional" doc:"It hears recordings."`
	ContextChars int      `hcl:"context_chars,optional" doc:"Characters a request may have."`
	MaxTokens    int      `hcl:"max_output_tokens,optional" doc:"Most tokens of an answer, whatever is asked for."`
	InputCost    float64  `hcl:"input_cost,optional" doc:"Price of a million tokens that are sent."`
	OutputCost   float64  `hcl:"output_cost,optional" doc:"Price of a million tokens of answers."`
	Fallback     []string `hcl:"fallback,optional" doc:"Tiers that stand in when this model's provider fails."`
}

type embedder struct {
	Provider string  `hcl:"provider,optional" doc:"openai, and all that speak its API."`
	BaseURL  string  `hcl:"base_url,optional"`
	Model    string  `hcl:"model"`
	APIKey   string  `hcl:"api_key,optional" bulkhead:"sensitive"`
	Cost     float64 `hcl:"input_cost,optional" doc:"Price of a million tokens."`
}

type budget struct {
	Agent  string  `hcl:"agent,label"`
	Tokens int64   `hcl:"tokens_per_day,optional" doc:"Tokens, sent and answered."`
	Cost   float64 `hcl:"cost_per_day,optional" doc:"Money, in the currency of the prices."`
}

func defaults() settings {
	return settings{Retries: 3, Idle: sdk.Duration(time.Minute), Timeout: sdk.Duration(5 * time.Minute), MaxImage: 8 << 20}
}

// Defaults are those of a model's block.
func (m *model) Defaults() { m.ContextChars = 400_000 }

func validate(_ context.Context, s *settings) sdk.Diagnostics {
	var d sdk.Diagnostics
	address := func(at sdk.Path, base string) {
		if u, err := url.Parse(base); base != "" && (err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil || u.RawQuery != "") {
			d.Errorf(at, "an http or https address without credentials and query is wanted here")
		}
	}
	seen := map[string]bool{}
	for i, m := range s.Models {
		at := sdk.Block("model", i)
		switch {
		case !slices.Contains(tiers, m.Tier):
			d.Errorf(at, "a model's tier is low, balanced or high, not %q", m.Tier)
		case seen[m.Tier]:
			d.Errorf(at, "there are two models of tier %q", m.Tier)
		}
		seen[m.Tier] = true
		if m.Provider != "openai" && m.Provider != "anthropic" {
			d.Errorf(at.Attr("provider"), "openai or anthropic is wanted here, not %q", m.Provider)
		}
		if m.Provider == "anthropic" && m.AudioInput {
			d.Errorf(at.Attr("audio_input"), "this provider takes no recordings")
		}
		address(at.Attr("base_url"), m.BaseURL)
		if m.Model == "" {
			d.Errorf(at.Attr("model"), "the name of a model is wanted here")
		}
		if m.ContextChars < 1000 {
			d.Errorf(at.Attr("context_chars"), "at least 1,000 characters are wanted here, not %d", m.ContextChars)
		}
		if m.MaxTokens < 0 || m.InputCost < 0 || m.OutputCost < 0 {
			d.Errorf(at, "max_output_tokens, input_cost and output_cost are not below zero")
		}
		for j, f := range m.Fallback {
			if !slices.Contains(tiers, f) || f == m.Tier {
				d.Errorf(at.Attr("fallback").Index(j), "another tier is wanted here: low, balanced or high, not %q", f)
			}
		}
	}
	if e := s.Embedder; e != nil {
		at := sdk.Block("embedder", 0)
		if e.Provider != "" && e.Provider != "openai" {
			d.Errorf(at.Attr("provider"), "openai is wanted here, not %q", e.Provider)
		}
		address(at.Attr("base_url"), e.BaseURL)
	}
	for i, b := range s.Budgets {
		if b.Tokens < 0 || b.Cost < 0 || (b.Tokens == 0 && b.Cost == 0) {
			d.Errorf(sdk.Block("budget", i), "a budget has tokens_per_day or cost_per_day above zero")
		}
	}
	if s.Retries < 0 || s.Retries > 10 {
		d.Errorf(sdk.Attr("max_retries"), "a number from 0 to 10 is wanted here, not %d", s.Retries)
	}
	for name, v := range map[string]sdk.Duration{"idle_timeout": s.Idle, "timeout": s.Timeout} {
		if v <= 0 || v > sdk.Duration(15*time.Minute) {
			d.Errorf(sdk.Attr(name), "a time above zero, and at most 15m, is wanted here")
		}
	}
	if s.MaxImage < 1<<10 || s.MaxImage > 64<<20 {
		d.Errorf(sdk.Attr("max_image"), "a size from 1KiB to 64MiB is wanted here, not %s", s.MaxImage)
	}
	return d
}

// secrets are the keys, which no text of this plugin repeats.
func (s *settings) secrets() (all []string) {
	for _, m := range s.Models {
		all = append(all, m.APIKey)
	}
	if s.Embedder != nil {
		all = append(all, s.Embedder.APIKey)
	}
	return all
}

func (m *model) provider(w *wire.Client) chat.Provider {
	if m.Provider == "anthropic" {
		return &anthropic.Provider{Base: cmp.Or(m.BaseURL, anthropic.BaseURL), Key: m.APIKey, Wire: w}
	}
	return openai.New(cmp.Or(m.BaseURL, openai.BaseURL), m.APIKey, w)
}

func (m *model) used(u chat.Usage) account.Used {
	// A price for a million tokens is, for one token, so many millionths.
	return account.Used{Calls: 1, Input: u.Input, Output: u.Output, Micros: int64(float64(u.Input)*m.InputCost + float64(u.Output)*m.OutputCost + 0.5)}
}

func (s *settings) budget(agent string) account.Budget {
	var found budget
	for _, b := range s.Budgets {
		if b.Agent == agent || (b.Agent == "default" && found.Agent == "") {
			found = b
		}
	}
	return account.Budget{Tokens: found.Tokens, Micros: int64(found.Cost * 1e6)}
}
