package call

import (
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/content"
	"github.com/bulkhead-dev/bulkhead/host/internal/event"
	"github.com/bulkhead-dev/bulkhead/host/internal/question"
	"github.com/bulkhead-dev/bulkhead/host/internal/registry"
	"github.com/bulkhead-dev/bulkhead/host/internal/store"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// maxAudited is how much of arguments and result one audit row keeps.
const maxAudited = 64 << 10

// audit records the call once it ended, in the trail, the metrics and the events.
// Elevated and restricted calls are kept with arguments and result, standard ones
// and those of internal tools by size and hash.
func (p *Pipeline) audit(c *call, result *pluginv1.Result) {
	took := time.Since(c.started)
	status, ref := "ok", ""
	if result.Error != nil {
		status, ref = result.Error.Code, result.Error.Ref
	} else if result.IsError {
		status = "execution_failed"
	}
	tool := c.name
	row := store.AuditRow{
		At: c.started.UTC(), CallID: c.id, Tool: clip(tool, 80), Door: c.Door, Status: status, Ref: ref,
		DurationMs: took.Milliseconds(), ArgsHash: question.Hash(c.args), ArgsBytes: int64(len(c.args)), ResultBytes: content.Size(result),
	}
	if c.Agent != nil {
		row.Agent = c.Agent.Name
	}
	if c.Session != nil {
		row.Session = c.Session.ID
	}
	if c.parent != nil {
		row.ParentCallID = c.parent.id
	}
	plugin := c.Owner
	if t := c.tool; t != nil {
		plugin, row.Tool, row.Tier = t.Owner, t.Name, tierNames[t.Rating.Tier]
		tool = t.Name
		if t.Rating.Tier > pluginv1.Tier_TIER_STANDARD && !t.Internal() {
			row.Arguments = c.args[:min(len(c.args), maxAudited)]
			row.Result = []byte(clip(plain(result), maxAudited))
		}
	} else {
		tool = "unknown" // a name nobody offers must not make a metric of its own
	}
	row.Plugin = plugin
	if p.Audit != nil {
		p.Audit(row)
	}
	if p.Observe != nil {
		p.Observe(tool, status, took)
	}
	if p.Events != nil && plugin != registry.Host {
		p.Events.Publish(event.Event{Type: "call.done", Plugin: plugin, Session: row.Session, CallID: c.id},
			doneData{Tool: row.Tool, Status: status, Ms: row.DurationMs})
	}
}

type doneData struct {
	Tool   string `json:"tool"`
	Status string `json:"status"`
	Ms     int64  `json:"ms"`
}

var tierNames = map[pluginv1.Tier]string{
	pluginv1.Tier_TIER_STANDARD: "standard", pluginv1.Tier_TIER_ELEVATED: "elevated", pluginv1.Tier_TIER_RESTRICTED: "restricted"}

// plain is the text of a result.
func plain(r *pluginv1.Result) string {
	var parts []string
	for _, block := range r.Content {
		switch b := block.Block.(type) {
		case *pluginv1.Content_Text:
			parts = append(parts, b.Text)
		case *pluginv1.Content_File:
			parts = append(parts, b.File.GetPath())
		case *pluginv1.Content_ResourceLink:
			parts = append(parts, b.ResourceLink.GetUri())
		}
	}
	return strings.Join(parts, "\n")
}

func now() time.Time { return time.Now() }
