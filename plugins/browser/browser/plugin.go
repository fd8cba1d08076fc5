package browser

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/browser/chrome"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// Version of the plugin.
const Version = "0.1.0"

//go:embed guide.md
var guide string

// Plugin builds the plugin.
func Plugin() *sdk.Plugin {
	t := &tools{plant: &plant{}, conf: sdk.NewConfig(defaults())}
	p := &sdk.Plugin{
		Name: "browser", Version: Version,
		Settings: t.conf,
		Tools:    []*sdk.Tool{t.renderTool(), t.screenshotTool()},
		Guides:   []sdk.Guide{{Name: "browser", Summary: "Pictures of web pages.", Markdown: guide}},
		Grants:   []string{"shared"},
		Sandbox:  sdk.Sandbox{Profile: "launcher", Network: "all"},
		Drain: func(context.Context, string) error {
			t.plant.close()
			return nil
		},
	}
	apply := func(s *settings) error { return t.plant.apply(s, p.Facts().TempDir) }
	t.conf.Validate = validate
	t.conf.Configure = func(_ context.Context, s *settings) error { return apply(s) }
	t.conf.Reconfigure = func(_ context.Context, _, s *settings) (bool, error) { return true, apply(s) }
	p.Health = func(context.Context) sdk.Health {
		if _, err := chrome.Find(t.conf.Get().Path); err != nil {
			return sdk.Health{Degraded: true, Detail: err.Error()}
		}
		return sdk.Health{}
	}
	return p
}

type tools struct {
	plant *plant
	conf  *sdk.Config[settings]
}

type renderArgs struct {
	URL        string `json:"url" doc:"Address of the page."`
	TimeoutMs  int64  `json:"timeout_ms,omitempty" doc:"Time for the page."`
	Wait       string `json:"wait,omitempty" doc:"load, idle (without it), or a CSS selector that must be there."`
	Screenshot bool   `json:"screenshot,omitempty" doc:"Save a picture of the window, too."`
}

func (t *tools) renderTool() *sdk.Tool {
	return sdk.NewTool("browser_render",
		"Renders a page in a headless browser and gives its HTML after scripts ran, with what was blocked on the way.",
		func(ctx context.Context, call *sdk.Call, in renderArgs) (sdk.Result, error) {
			u, err := parseURL(in.URL)
			if err != nil {
				return sdk.Result{}, err
			}
			out, err := t.render(ctx, order{url: u, wait: in.Wait, screenshot: in.Screenshot}, in.TimeoutMs)
			if err != nil {
				return sdk.Result{}, err
			}
			if in.Screenshot {
				ref, err := t.save(call, out)
				if err != nil {
					return sdk.Result{}, err
				}
				out.Shot = ref.Path
			}
			raw, err := out.pack()
			if err != nil {
				return sdk.Result{}, err
			}
			result := sdk.Textf("%s, status %d, %d characters of HTML", out.FinalURL, out.Status, len([]rune(out.HTML)))
			result.Structured = raw
			return result, nil
		},
		sdk.WithTitle("Render a page"), sdk.Internal(), sdk.WithTier(sdk.Standard), sdk.WithGroup("research"), sdk.WithSource("browser"),
		sdk.WithTimeout(maxRender+10*time.Second), sdk.ReadOnly(), sdk.OpenWorld(), sdk.WithOutput[rendered](),
	)
}

type screenshotArgs struct {
	URL      string `json:"url" doc:"Address of the page, http:// or https://."`
	FullPage bool   `json:"full_page,omitempty" doc:"The whole page instead of the first window of it."`
}

func (t *tools) screenshotTool() *sdk.Tool {
	return sdk.NewTool("web_screenshot",
		"Opens a page in a headless browser and saves a picture of it in the shared folder.",
		func(ctx context.Context, call *sdk.Call, in screenshotArgs) (sdk.Result, error) {
			u, err := parseURL(in.URL)
			if err != nil {
				return sdk.Result{}, err
			}
			out, err := t.render(ctx, order{url: u, screenshot: true, fullPage: in.FullPage}, 0)
			if err != nil {
				return sdk.Result{}, err
			}
			ref, err := t.save(call, out)
			if err != nil {
				return sdk.Result{}, err
			}
			text := fmt.Sprintf("Saved a picture of %s (%q, status %d) as %s.", brief(out.FinalURL), brief(out.Title), out.Status, ref.Path)
			if out.Unsettled {
				text += " The page was still changing."
			}
			if n := len(out.Blocked); n > 0 {
				text += fmt.Sprintf(" Not let through: %s.", strings.Join(out.Blocked[:min(n, 5)], "; "))
			}
			return sdk.Contents(sdk.Text(text), sdk.File(ref)), nil
		},
		sdk.WithTitle("Take a picture of a page"), sdk.WithTier(sdk.Elevated), sdk.WithGroup("research"), sdk.WithSource("browser"),
		sdk.WithTimeout(maxRender+10*time.Second), sdk.OpenWorld(),
	)
}

func (t *tools) render(ctx context.Context, o order, ms int64) (rendered, error) {
	s, err := t.plant.get()
	if err != nil {
		return rendered{}, err
	}
	o.timeout = s.set.RenderTimeout.Std()
	if ms > 0 {
		o.timeout = min(max(time.Duration(ms)*time.Millisecond, minRender), maxRender)
	}
	return s.render(ctx, o)
}

// folder of the pictures, in the shared folder.
const folder = "screenshots"

func (t *tools) save(call *sdk.Call, out rendered) (sdk.FileRef, error) {
	shared := call.Shared()
	ref, err := shared.WriteFile(path.Join(shared.Folder(), folder, "page-"+rand.Text()[:10]+".png"), out.png)
	ref.Note = "picture of " + brief(out.FinalURL)
	return ref, err
}
