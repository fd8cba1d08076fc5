package builtin

import (
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

const guide = `# Working with this host

- Results over a limit are kept in working memory in chunks. The result then names an index key; read it with get_from_working_memory and read the chunks that matter before you conclude anything.
- save_to_working_memory keeps text under a key for this session; it expires. get_from_working_memory takes offset and length in bytes for a part of a long value.
- Not every tool is listed. A tool you know by name can be called with call_tool(name, arguments).
- A call that waits for approval or an answer names a question (q_…). Call again with the same arguments later, or read the inbox with inbox_read.
`

// Offers is what the host itself offers.
func Offers() *pluginv1.OfferSnapshot {
	return &pluginv1.OfferSnapshot{
		Revision: 1,
		Tools: []*pluginv1.Tool{
			tool("save_to_working_memory", "Keep a text in this session's working memory under a key. It expires after ttl_minutes (5 if not given). Answers the full key.",
				`{"type":"object","properties":{"key":{"type":"string","minLength":1,"maxLength":200,"description":"Name of the value"},"data":{"type":"string","description":"The text to keep"},"ttl_minutes":{"type":"number","minimum":0.1,"maximum":1440,"description":"Minutes until it expires"},"category":{"type":"string","description":"A word to find it by"},"tags":{"type":"array","items":{"type":"string"},"description":"Tags to find it by"}},"required":["key","data"],"additionalProperties":false}`, false),
			tool("get_from_working_memory", "Read a value from working memory, whole or a range of its bytes.",
				`{"type":"object","properties":{"key":{"type":"string","minLength":1,"description":"Key, or the full key a result named"},"offset":{"type":"integer","minimum":0,"description":"First byte to read"},"length":{"type":"integer","minimum":1,"description":"Bytes to read; to the end if not given"}},"required":["key"],"additionalProperties":false}`, true),
			tool("delete_from_working_memory", "Delete a value from working memory.",
				`{"type":"object","properties":{"key":{"type":"string","minLength":1,"description":"Key, or the full key"}},"required":["key"],"additionalProperties":false}`, false),
			tool("search_working_memory", "Find values in working memory by words, category and tags. Without a query the newest come first.",
				`{"type":"object","properties":{"query":{"type":"string","description":"Words to look for"},"category":{"type":"string","description":"Category, or the beginning of it"},"tags":{"type":"array","items":{"type":"string"},"description":"Tags that must all be there"},"limit":{"type":"integer","minimum":1,"maximum":50,"description":"Hits at most; 20 if not given"}},"additionalProperties":false}`, true),
			tool("list_tool_guides", "List the guides on how to use groups of tools well.", `{"type":"object","properties":{},"additionalProperties":false}`, true),
			tool("get_tool_guide", "Read one guide.", `{"type":"object","properties":{"name":{"type":"string","description":"Name of the guide"}},"required":["name"],"additionalProperties":false}`, true),
			tool("inbox_read", "Read what arrived for this session: results of calls that were answered later, notices, events.",
				`{"type":"object","properties":{"after":{"type":"integer","minimum":0,"description":"Only entries after this number"},"limit":{"type":"integer","minimum":1,"maximum":100,"description":"Entries at most; 20 if not given"}},"additionalProperties":false}`, true),
			tool("call_tool", "Call any tool you may use by its name, also one that is not listed. The call is checked as a call of that tool.",
				`{"type":"object","properties":{"name":{"type":"string","description":"Name of the tool"},"arguments":{"type":"object","description":"Its arguments","additionalProperties":true}},"required":["name"],"additionalProperties":false}`, false),
		},
		Guides: []*pluginv1.Guide{{Name: "host", Summary: "Long results, working memory, unlisted tools and waiting questions", Markdown: guide}},
	}
}

func tool(name, description, schema string, readOnly bool) *pluginv1.Tool {
	t := &pluginv1.Tool{
		Name: name, Description: description, InputSchema: []byte(schema), Source: "host",
		ProposedTier: pluginv1.Tier_TIER_STANDARD, Exposure: pluginv1.Exposure_EXPOSURE_ALWAYS,
		Unshaped: true, // a reader of memory whose result went to memory would never end
	}
	if readOnly {
		t.Annotations = []byte(`{"readOnlyHint":true,"openWorldHint":false}`)
	}
	return t
}
