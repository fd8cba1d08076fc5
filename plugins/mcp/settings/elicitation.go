package settings

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk"
)

// maxHandback is the longest a question may stay open; the host keeps none longer.
const maxHandback = 24 * time.Hour

func checkElicitation(d *sdk.Diagnostics, at sdk.Path, e *Elicitation) {
	if e == nil {
		return
	}
	oneOf(d, at.Attr("mode"), e.Mode, "off", "decline", "defaults", "auto", "handback")
	if e.MaxPerCall != nil && (*e.MaxPerCall < 0 || *e.MaxPerCall > 10) {
		d.Errorf(at.Attr("max_per_call"), "a number from 0 to 10 is wanted here")
	}
	if e.ResponderTimeout < 0 || e.ResponderTimeout.Std() > 15*time.Minute {
		d.Errorf(at.Attr("responder_timeout"), "a time up to 15m is wanted here")
	}
	switch r := strings.ToLower(e.Responder); {
	case r == "", r == "llm", r == "conversation", strings.HasPrefix(r, "tool:") && len(r) > len("tool:"):
	default:
		d.Errorf(at.Attr("responder"), `%q is not known here; "llm", "conversation" and "tool:NAME" are`, e.Responder)
	}
	if len(e.Defaults) > 0 {
		var m map[string]json.RawMessage
		if json.Unmarshal(e.Defaults, &m) != nil {
			d.Errorf(at.Attr("defaults"), "an object of values by field is wanted here")
		}
	}
	for i, f := range e.DeniedFields {
		if strings.TrimSpace(f) == "" {
			d.Errorf(at.Attr("denied_fields").Index(i), "an empty name denies nothing")
		}
	}
}

// checkShared tells what a policy for all servers can't say.
func (e *Elicitation) checkShared(d *sdk.Diagnostics) {
	if e == nil {
		return
	}
	at := sdk.Block("default_elicitation", 0)
	if e.Mode == "handback" {
		d.Warnf(at.Attr("mode"), `"handback" is for a server's own elicitation block; here it is taken as "auto"`)
	}
	if strings.EqualFold(e.Responder, "conversation") {
		d.Errorf(at.Attr("responder"), `"conversation" is for a server's own elicitation block: it hands what users said to a server`)
	}
}

// maxTask is the longest a background task may take.
const maxTask = 30 * 24 * time.Hour

func (s *Server) checkHandback(d *sdk.Diagnostics, at sdk.Path) {
	if s.TaskTimeout < 0 || s.TaskTimeout.Std() > maxTask || s.TaskTimeout > 0 && s.TaskTimeout.Std() < time.Second {
		d.Errorf(at.Attr("task_timeout"), "a time from 1s to 720h is wanted here")
	}
	if s.TaskTimeout > 0 && !s.Tasks {
		d.Warnf(at.Attr("task_timeout"), "task_timeout has no effect without tasks = true")
	}
	if s.HandbackTTL < 0 || s.HandbackTTL.Std() > maxHandback {
		d.Errorf(at.Attr("handback_ttl"), "a time up to 24h is wanted here")
	}
	if s.HandbackTTL > 0 && (s.Elicitation == nil || s.Elicitation.Mode != "handback") {
		d.Warnf(at.Attr("handback_ttl"), `handback_ttl has no effect without elicitation { mode = "handback" }`)
	}
}
