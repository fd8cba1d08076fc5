package llm

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/bulkhead-dev/bulkhead/plugins/llm/account"
	"github.com/bulkhead-dev/bulkhead/plugins/llm/chat"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// about is what llm_models says of one.
type about struct {
	Tier         string `json:"model_tier"`
	Model        string `json:"model"`
	ImageInput   bool   `json:"image_input"`
	AudioInput   bool   `json:"audio_input"`
	ContextChars int    `json:"context_chars"`
}

type modelsArgs struct{}

func (g *gateway) modelsTool() *sdk.Tool {
	return sdk.NewTool("llm_models", "Lists the models by tier, and what they take.", func(context.Context, *sdk.Call, modelsArgs) (sdk.Result, error) {
		a := g.active.Load()
		all := []about{}
		for _, t := range tiers {
			if m := a.models[t]; m != nil {
				all = append(all, about{t, m.Model, m.ImageInput, m.AudioInput, m.ContextChars})
			}
		}
		return sdk.JSON(all)
	}, sdk.WithTitle("Models"), sdk.WithTier(sdk.Standard), sdk.WithGroup("llm"), sdk.WithSource("llm"), sdk.Internal(), sdk.ReadOnly())
}

const (
	mostTexts     = 256
	mostTextChars = 1 << 20
)

type embedArgs struct {
	Texts []string `json:"texts" doc:"What is to become vectors."`
}

func (g *gateway) embedTool() *sdk.Tool {
	return sdk.NewTool("llm_embed", "Turns texts into vectors.", g.embed,
		sdk.WithTitle("Vectors of texts"), sdk.WithTier(sdk.Standard), sdk.WithGroup("llm"), sdk.WithSource("llm"), sdk.Internal(), sdk.ReadOnly(), sdk.Unshaped())
}

func (g *gateway) embed(ctx context.Context, call *sdk.Call, in embedArgs) (sdk.Result, error) {
	a := g.active.Load()
	chars := 0
	for _, t := range in.Texts {
		chars += len(t)
	}
	if len(in.Texts) == 0 || len(in.Texts) > mostTexts || chars > mostTextChars {
		return sdk.Result{}, sdk.Errorf(sdk.InvalidArguments, "1 to %d texts of together at most %d bytes are taken", mostTexts, mostTextChars)
	}
	agent := payer(call)
	if err := g.book.Begin(ctx, agent, a.budget(agent), openCalls); err != nil {
		return sdk.Result{}, spent(err)
	}
	limit, cancel := context.WithTimeoutCause(ctx, a.Timeout.Std(), errSlow)
	defer cancel()
	var vectors [][]float32
	var err error
	for try := 0; ; try++ {
		vectors, err = a.embedder.Embed(limit, a.Embedder.Model, in.Texts)
		var f *chat.Failure
		if err == nil || !errors.As(err, &f) || !f.Again() || try >= a.Retries || !wait(limit, try, f.After) {
			break
		}
	}
	end, done := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer done()
	var used account.Used
	if err == nil {
		tokens := int64(chars / 4) // few servers count them; this is the usual estimate
		used = account.Used{Calls: 1, Input: tokens, Micros: int64(float64(tokens)*a.Embedder.Cost + 0.5)}
	}
	if booked := g.book.End(end, agent, used); booked != nil {
		call.Logger().Warn("what a call used is not counted", "agent", agent, "error", booked)
	}
	if err != nil {
		return sdk.Result{}, told(ctx, limit, nil, err)
	}
	raw, err := json.Marshal(map[string]any{"vectors": vectors, "model": a.Embedder.Model})
	if err != nil {
		return sdk.Result{}, err
	}
	return sdk.Result{Structured: raw}, nil
}
