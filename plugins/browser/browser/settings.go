package browser

import (
	"context"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/netguard"
)

// settings of the plugin, as in its config block.
type settings struct {
	Path          string       `hcl:"path,optional" bulkhead:"path=exec" doc:"The browser's program; without it the first Chromium that is installed."`
	AllowHosts    []string     `hcl:"allow_hosts,optional" doc:"Hosts, host:port pairs or CIDR blocks that pages may reach although they are private."`
	RenderTimeout sdk.Duration `hcl:"render_timeout,optional" doc:"Time for one page when the call doesn't say."`
	Pages         int          `hcl:"pages,optional" doc:"Pages open at a time."`
	PageBytes     sdk.Size     `hcl:"page_bytes,optional" doc:"Bytes that one page may move over the network."`
	Idle          sdk.Duration `hcl:"idle,optional" doc:"Time without a page after which the browser is ended."`
	UserAgent     string       `hcl:"user_agent,optional" doc:"What the browser calls itself."`
}

func defaults() settings {
	return settings{RenderTimeout: sdk.Duration(30 * time.Second), Pages: 3, PageBytes: 64 << 20, Idle: sdk.Duration(5 * time.Minute)}
}

// Bounds of one page's time.
const (
	minRender = 500 * time.Millisecond
	maxRender = 2 * time.Minute
)

func validate(_ context.Context, s *settings) sdk.Diagnostics {
	var d sdk.Diagnostics
	for i, entry := range s.AllowHosts {
		if err := netguard.Valid(entry); err != nil {
			d.Errorf(sdk.Attr("allow_hosts").Index(i), "%v", err)
		}
	}
	if t := s.RenderTimeout.Std(); t < minRender || t > maxRender {
		d.Errorf(sdk.Attr("render_timeout"), "a time from %s to %s is wanted here, not %s", minRender, maxRender, t)
	}
	if s.Pages < 1 || s.Pages > 32 {
		d.Errorf(sdk.Attr("pages"), "a number from 1 to 32 is wanted here, not %d", s.Pages)
	}
	if s.PageBytes < 64<<10 || s.PageBytes > 1<<30 {
		d.Errorf(sdk.Attr("page_bytes"), "a size from 64KiB to 1GiB is wanted here, not %s", s.PageBytes)
	}
	if s.Idle <= 0 {
		d.Errorf(sdk.Attr("idle"), "a time above zero is wanted here")
	}
	return d
}
