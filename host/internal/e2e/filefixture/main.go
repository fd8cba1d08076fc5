// Command filefixture is a plugin for the tests of the HTTP API: it gives away
// files, speaks to orientation and finds services.
package main

import (
	"context"
	"encoding/json"
	"os"

	"github.com/bulkhead-dev/bulkhead/sdk"
)

type writeArgs struct {
	Path string `json:"path" jsonschema:"required"`
	Text string `json:"text"`
}

type claimArgs struct {
	Path string `json:"path" jsonschema:"required"`
	Mime string `json:"mime,omitempty"`
}

type queryArgs struct {
	Query string `json:"query" jsonschema:"required"`
}

func main() {
	prefix := os.Getenv("FIXTURE_PREFIX")
	if prefix == "" {
		prefix = "ff"
	}
	p := &sdk.Plugin{Name: "filefixture", Version: "1.0.0",
		Orientation: []sdk.Orientation{{Text: "Files are given by " + prefix + "_write.", AnyListed: []string{prefix + "_write"}}}}
	p.Tools = []*sdk.Tool{
		sdk.NewTool(prefix+"_write", "Writes a file and gives it away.", func(_ context.Context, _ *sdk.Call, in writeArgs) (sdk.Result, error) {
			ref, err := p.Shared().WriteFile(in.Path, []byte(in.Text))
			if err != nil {
				return sdk.Result{}, err
			}
			return sdk.Files(ref), nil
		}),
		sdk.NewTool(prefix+"_claim", "Gives a file away by its name alone.", func(_ context.Context, _ *sdk.Call, in claimArgs) (sdk.Result, error) {
			return sdk.Files(sdk.FileRef{Path: in.Path, MIME: in.Mime}), nil
		}),
		sdk.NewTool(prefix+"_think", "Lets the caller's model think.", func(_ context.Context, c *sdk.Call, _ struct{}) (sdk.Result, error) {
			if c.Round == 0 {
				return sdk.NeedInput([]sdk.InputRequest{{ID: "turn", Kind: sdk.AskModel, Message: "A turn of your model.",
					Model: json.RawMessage(`{"messages":[{"role":"user","content":{"type":"text","text":"What is a bulkhead?"}}],"maxTokens":100}`)}}, nil), nil
			}
			return sdk.TextResult(c.Input["turn"].Action + " " + string(c.Input["turn"].Content)), nil
		}),
	}
	if prefix == "ff" {
		p.Tools = append(p.Tools, sdk.NewTool("search_known_services", "Finds services.", func(_ context.Context, _ *sdk.Call, in queryArgs) (sdk.Result, error) {
			raw, err := json.Marshal(map[string]any{"results": []map[string]string{{"id": "a", "summary": in.Query}, {"id": "b"}, {"id": "c"}}})
			if err != nil {
				return sdk.Result{}, err
			}
			return sdk.TextResult(string(raw)), nil
		}))
	}
	sdk.Serve(p)
}
