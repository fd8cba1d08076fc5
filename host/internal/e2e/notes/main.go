// Command notes is a plugin for the tests of subscriptions: a note that changes when
// it is asked to, a guide that does so too, and words for the inbox. The variable
// FIXTURE_PREFIX names all of it.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"github.com/bulkhead-dev/bulkhead/sdk"
)

type touchArgs struct {
	URIs []string `json:"uris" jsonschema:"required"`
}

type textArgs struct {
	Text string `json:"text" jsonschema:"required"`
}

type failArgs struct {
	Code string `json:"code"`
}

func main() {
	prefix := os.Getenv("FIXTURE_PREFIX")
	note := prefix + "://note"
	var version atomic.Int64
	p := &sdk.Plugin{Name: "notes", Version: "1.0.0",
		Complete: func(context.Context, *sdk.Call, sdk.CompletionTarget) (sdk.Result, error) {
			return sdk.Completion("completed"), nil
		},
		Prompts: []sdk.Prompt{{Name: prefix + "_prompt", Arguments: []sdk.PromptArgument{{Name: "a"}},
			Handler: func(context.Context, *sdk.Call) (sdk.Result, error) { return sdk.PromptText("a prompt", "text"), nil }}},
		Resources: []sdk.Resource{{URI: note, Name: "Note", MIME: "text/plain",
			Handler: func(_ context.Context, _ *sdk.Call, uri string) (sdk.Result, error) {
				return sdk.ResourceText(uri, "text/plain", fmt.Sprint(version.Load())), nil
			}}},
		Templates: []sdk.ResourceTemplate{{URITemplate: prefix + "://page/{n}", Name: "Page",
			Matches: func(uri string) bool { return strings.HasPrefix(uri, prefix+"://page/") },
			Handler: func(_ context.Context, _ *sdk.Call, uri string) (sdk.Result, error) {
				return sdk.ResourceText(uri, "text/plain", "a page"), nil
			}}},
	}
	p.Tools = []*sdk.Tool{
		sdk.NewTool(prefix+"_touch", "Says that resources changed.", func(_ context.Context, _ *sdk.Call, in touchArgs) (sdk.Result, error) {
			version.Add(1)
			p.Offers().ResourceUpdated(in.URIs...)
			return sdk.TextResult("touched"), nil
		}),
		sdk.NewTool(prefix+"_rewrite", "Gives the guide another text.", func(_ context.Context, _ *sdk.Call, in textArgs) (sdk.Result, error) {
			return sdk.TextResult("rewritten"), p.Offers().Set("guide", sdk.Offer{Guides: []sdk.Guide{{Name: prefix, Summary: "A guide", Markdown: in.Text}}})
		}),
		sdk.NewTool(prefix+"_tell", "Puts a text into the session's inbox.", func(ctx context.Context, c *sdk.Call, in textArgs) (sdk.Result, error) {
			_, err := c.Host().Publish(ctx, sdk.Event{Kind: "word", Text: in.Text})
			return sdk.TextResult("told"), err
		}),
		sdk.NewTool(prefix+"_fail", "Fails with a code of its own.", func(_ context.Context, _ *sdk.Call, in failArgs) (sdk.Result, error) {
			return sdk.Result{}, sdk.Errorf(sdk.Code(in.Code), "as asked")
		}),
	}
	sdk.Serve(p)
}
