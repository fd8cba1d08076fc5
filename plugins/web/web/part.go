package web

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk"
)

type fetchArgs struct {
	URL    string `json:"url" doc:"Address of the page, http:// or https://."`
	Offset int    `json:"offset,omitempty" doc:"Characters to skip, to read on where the last part ended."`
	Max    int    `json:"max_chars,omitempty" doc:"Characters wanted, 6000 by default, at most 50000."`
}

// Characters of one part of web_fetch.
const (
	partChars    = 6000
	maxPartChars = 50_000
)

func (b *browser) fetchTool() *sdk.Tool {
	return sdk.NewTool("web_fetch",
		"Gives a part of a page's Markdown, by characters: for reading a long page piece by piece without working memory.",
		b.part,
		sdk.WithTitle("Fetch a part of a page"),
		sdk.WithTier(sdk.Elevated), sdk.WithGroup("research"), sdk.WithSource("web"),
		sdk.WithTimeout(90*time.Second), sdk.ReadOnly(), sdk.OpenWorld(),
	)
}

func (b *browser) part(ctx context.Context, call *sdk.Call, in fetchArgs) (sdk.Result, error) {
	u, err := parseURL(in.URL)
	if err != nil {
		return sdk.Result{}, err
	}
	if in.Offset < 0 {
		return sdk.Result{}, sdk.Errorf(sdk.InvalidArguments, "offset is %d; it counts characters from the start", in.Offset)
	}
	page, err := b.page(ctx, call, u, false)
	if err != nil {
		return sdk.Result{}, err
	}
	// What stands in front differs from call to call, and would shift what is counted.
	all := []rune(strings.TrimPrefix(page.body, "\n"))
	if in.Max <= 0 {
		in.Max = partChars
	}
	if in.Offset > 0 && in.Offset >= len(all) {
		return sdk.Result{}, sdk.Errorf(sdk.InvalidArguments, "offset %d is beyond the page, which has %d characters", in.Offset, len(all))
	}
	end := min(len(all), in.Offset+min(in.Max, maxPartChars))
	part := page.head + "\n" + string(all[in.Offset:end])
	if end < len(all) {
		part += fmt.Sprintf("\n\n[characters %d to %d of %d; read on with offset=%d]", in.Offset, end, len(all), end)
	}
	return sdk.TextResult(part), nil
}
