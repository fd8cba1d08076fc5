package analyze

import (
	"context"
	"encoding/json"
	"os/exec"
	"slices"
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/analyze/pdf"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// Version of the plugin.
const Version = "0.1.0"

const (
	lookAgain = 15 * time.Second // at the models there are
	lookFirst = time.Second      // while none is known
	lookTime  = 10 * time.Second
)

// settings of the plugin, as in its config block.
type settings struct {
	MaxSize sdk.Size     `hcl:"max_size,optional" doc:"Largest file that is looked at; a larger one is refused before it is read."`
	Types   []string     `hcl:"types,optional" doc:"Media types that are looked at, or listened to."`
	OCR     bool         `hcl:"ocr,optional" doc:"While no model sees, read the text in pictures with tesseract, where it is installed."`
	Pages   int          `hcl:"max_pages,optional" doc:"Pages of a PDF that are looked at in one call."`
	Timeout sdk.Duration `hcl:"timeout,optional" doc:"Time for one analysis."`
}

func defaults() settings {
	return settings{MaxSize: 8 << 20, Types: []string{"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf", "audio/mpeg", "audio/wav"}, OCR: true, Pages: 5, Timeout: sdk.Duration(3 * time.Minute)}
}

func validate(_ context.Context, s *settings) sdk.Diagnostics {
	var d sdk.Diagnostics
	if s.MaxSize < 1<<10 || s.MaxSize > 64<<20 {
		d.Errorf(sdk.Attr("max_size"), "a size from 1KiB to 64MiB is wanted here, not %s", s.MaxSize)
	}
	known := knownTypes()
	for i, t := range s.Types {
		if !slices.Contains(known, t) {
			d.Errorf(sdk.Attr("types").Index(i), "one of %v is wanted here, not %q", known, t)
		}
	}
	if s.Pages < 1 || s.Pages > 20 {
		d.Errorf(sdk.Attr("max_pages"), "a number from 1 to 20 is wanted here, not %d", s.Pages)
	}
	if s.Timeout <= 0 || s.Timeout > sdk.Duration(15*time.Minute) {
		d.Errorf(sdk.Attr("timeout"), "a time above zero, and at most 15m, is wanted here")
	}
	return d
}

// looker is the plugin at work.
type looker struct {
	plugin *sdk.Plugin
	conf   *sdk.Config[settings]
	pdf    *pdf.Renderer
	models atomic.Pointer[[]about]
	ocr    string // path of tesseract; "" = not installed
}

// about is what llm_models says of a model.
type about struct {
	Tier   string `json:"model_tier"`
	Model  string `json:"model"`
	Images bool   `json:"image_input"`
	Audio  bool   `json:"audio_input"`
}

// Plugin builds the plugin.
func Plugin() *sdk.Plugin {
	l := &looker{conf: sdk.NewConfig(defaults()), pdf: pdf.New()}
	l.ocr, _ = exec.LookPath("/usr/bin/tesseract") // without it there is none
	l.conf.Validate = validate
	l.conf.Reconfigure = func(context.Context, *settings, *settings) (bool, error) { return true, nil }
	l.models.Store(&[]about{})
	l.plugin = &sdk.Plugin{
		Name: "analyze", Version: Version,
		Settings: l.conf,
		Grants:   []string{"shared", "tool:llm_generate", "tool:llm_models"},
		Sandbox:  sdk.Sandbox{Profile: "strict", Network: "none"}, // tesseract lies under /usr, which every plugin reads
		Activate: func(ctx context.Context) error { go l.follow(ctx); return nil },
		Health:   l.health,
	}
	return l.plugin
}

// follow offers the tool while something can look at files, until ctx ends.
func (l *looker) follow(ctx context.Context) {
	offered := false
	l.sweep()
	for ctx.Err() == nil {
		all, err := l.ask(ctx)
		if err != nil {
			l.plugin.Logger().Debug("the models are not known", "reason", err)
			all = []about{}
		}
		l.models.Store(&all)
		able := slices.ContainsFunc(all, func(m about) bool { return m.Images || m.Audio }) || (l.conf.Get().OCR && l.ocr != "")
		switch {
		case able && !offered:
			if err := l.plugin.Offers().Set("analyze", sdk.Offer{Tools: []*sdk.Tool{l.tool()}, Guides: []sdk.Guide{guide}}); err != nil {
				l.plugin.Logger().Error("the tool is not offered", "error", err)
			} else {
				offered = true
			}
		case !able && offered:
			l.plugin.Offers().Remove("analyze")
			offered = false
		}
		wait := lookAgain
		if !offered {
			wait = lookFirst
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
}

func (l *looker) ask(ctx context.Context) (all []about, err error) {
	r, err := l.plugin.Host().CallTool(ctx, "llm_models", json.RawMessage(`{}`), lookTime)
	if err != nil {
		return nil, err
	}
	if r.Error != nil {
		return nil, r.Error
	}
	raw := []byte(r.Structured)
	if len(raw) == 0 {
		raw = []byte(r.Text())
	}
	return all, json.Unmarshal(raw, &all)
}

func (l *looker) health(context.Context) sdk.Health {
	if slices.ContainsFunc(*l.models.Load(), func(m about) bool { return m.Images }) {
		return sdk.Health{}
	}
	if l.conf.Get().OCR && l.ocr != "" {
		return sdk.Health{Degraded: true, Detail: "no model can see; the text in pictures is read with tesseract. For more, plugin llm needs a model with image_input = true, and this one the grants tool:llm_generate and tool:llm_models"}
	}
	return sdk.Health{Degraded: true, Detail: "no model can see: plugin llm needs a model with image_input = true, and this one the grants tool:llm_generate and tool:llm_models"}
}
