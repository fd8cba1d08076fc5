package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/settings"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// offerFollowers offers the tools that only make sense while some server needs
// them: mcp_answer with servers that hand questions back, mcp_cancel_task with
// servers that run tasks. They follow from the settings alone, so that a server
// that is away for a moment takes nothing with it.
func (b *Bridge) offerFollowers(c *settings.Settings, servers []settings.Server) error {
	var o sdk.Offer
	if c.Management && handsBackAnywhere(servers) {
		o.Tools = append(o.Tools, b.manage("mcp_answer",
			`{"type":"object","properties":{"question_id":{"type":"string","description":"The q_… id of the question."},"answers":{"type":"object","description":"Values by field name."},"decline":{"type":"boolean","description":"True to refuse instead."}},"required":["question_id"]}`,
			sdk.Standard, b.answerQuestion))
	}
	if c.Management && slices.ContainsFunc(servers, func(s settings.Server) bool { return s.Tasks && !s.Agents }) {
		o.Tools = append(o.Tools, b.manage("mcp_cancel_task",
			`{"type":"object","properties":{"task_id":{"type":"string","description":"The t_… id of the task."}},"required":["task_id"]}`,
			sdk.Standard, b.cancelByAgent))
	}
	if len(o.Tools) == 0 {
		b.plugin.Offers().Remove("followers")
		return nil
	}
	return b.plugin.Offers().Set("followers", o)
}

// answerQuestion settles a question that was handed back. Whose question it is, and
// whether the answer fits, is the host's to say.
func (b *Bridge) answerQuestion(ctx context.Context, call *sdk.Call, a arguments) (sdk.Result, error) {
	id, err := a.text("question_id", "the q_… id of an open question")
	if err != nil {
		return sdk.Result{}, err
	}
	action := "accept"
	if yes, ok := truth(a["decline"]); !ok {
		return sdk.Result{}, sdk.Errorf(sdk.InvalidArguments, "decline is true or false, not %s", clip(string(a["decline"]), 80))
	} else if yes {
		action = "decline"
	}
	var content json.RawMessage
	if action == "accept" {
		if content, err = answers(a["answers"]); err != nil {
			return sdk.Result{}, err
		}
	}
	result, known, err := call.Host().AnswerQuestion(ctx, id, action, content)
	switch {
	case err != nil:
		return sdk.Result{}, err
	case known && result.Error != nil && result.Error.Code == sdk.Interrupted:
		return sdk.TextResult(result.Error.Message), nil // the next question, not a failure
	case known && result.Error != nil:
		return sdk.Result{}, result.Error
	case known:
		return result, nil
	}
	return sdk.Textf("Question %s is settled (%s). What it was asked for goes on; its result goes to where it was waited for, or to the inbox.", id, action), nil
}

// answers are the values of an answer; a model may have sent them as a text.
func answers(raw json.RawMessage) (json.RawMessage, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil && strings.HasPrefix(strings.TrimSpace(text), "{") {
		raw = json.RawMessage(text)
	}
	var m map[string]json.RawMessage
	switch t := bytes.TrimSpace(raw); {
	case len(t) == 0 || string(t) == "null":
		return nil, sdk.Errorf(sdk.InvalidArguments, `answers are missing: {"question_id":"q_…","answers":{"FIELD":VALUE}}, or "decline":true`)
	case json.Unmarshal(raw, &m) != nil:
		return nil, sdk.Errorf(sdk.InvalidArguments, "answers are no object of values by field: %s", clip(string(raw), 200))
	}
	return raw, nil
}

// truth reads true and false, also where they were written as texts.
func truth(raw json.RawMessage) (value, ok bool) {
	t := strings.ToLower(strings.Trim(string(bytes.TrimSpace(raw)), `"`))
	return t == "true", t == "" || t == "null" || t == "true" || t == "false"
}
