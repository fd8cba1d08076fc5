package config

import pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"

// The host's own blocks, in the same form in which plugins describe theirs.

type schemaItem func(*pluginv1.ConfigBody)

func body(items ...schemaItem) *pluginv1.ConfigBody {
	b := &pluginv1.ConfigBody{}
	for _, item := range items {
		item(b)
	}
	return b
}

func attr(name, typ string, mods ...func(*pluginv1.ConfigAttribute)) schemaItem {
	return func(b *pluginv1.ConfigBody) {
		a := &pluginv1.ConfigAttribute{Name: name, Type: typ}
		for _, m := range mods {
			m(a)
		}
		b.Attributes = append(b.Attributes, a)
	}
}

func one(name string, items ...schemaItem) schemaItem {
	return func(b *pluginv1.ConfigBody) {
		b.Blocks = append(b.Blocks, &pluginv1.ConfigBlock{TypeName: name, MaxItems: 1, Body: body(items...)})
	}
}

func many(name, label string, items ...schemaItem) schemaItem {
	return func(b *pluginv1.ConfigBody) {
		b.Blocks = append(b.Blocks, &pluginv1.ConfigBlock{TypeName: name, Labels: []string{label}, Body: body(items...)})
	}
}

func required(a *pluginv1.ConfigAttribute)  { a.Required = true }
func sensitive(a *pluginv1.ConfigAttribute) { a.Sensitive = true }
func duration(a *pluginv1.ConfigAttribute)  { a.Quantity = pluginv1.Quantity_QUANTITY_DURATION }
func size(a *pluginv1.ConfigAttribute)      { a.Quantity = pluginv1.Quantity_QUANTITY_SIZE }
func readPath(a *pluginv1.ConfigAttribute)  { a.Path = pluginv1.PathUse_PATH_USE_READ }
func writePath(a *pluginv1.ConfigAttribute) { a.Path = pluginv1.PathUse_PATH_USE_WRITE }
func execPath(a *pluginv1.ConfigAttribute)  { a.Path = pluginv1.PathUse_PATH_USE_EXEC }

const (
	text   = "string"
	number = "number"
	yesNo  = "bool"
	words  = "list(string)"
)

// rawConfig is the body of a plugin's config block: it stays unread until the
// plugin's schema is known.
var rawConfig = &pluginv1.ConfigBody{}

var hostSchema = body(
	one("host",
		attr("data_dir", text, writePath),
		attr("plugins", text, readPath),
		attr("shared", text, writePath),
		attr("autoload", yesNo),
		attr("log_level", text),
		attr("working_memory", text, size),
	),
	many("frontend", "kind",
		attr("address", text),
		attr("hosts", words),
		attr("origins", words),
	),
	one("results",
		attr("threshold", number),
		many("model", "glob", attr("threshold", number, required)),
	),
	one("session",
		attr("list_budget", number),
		attr("activated_tools", number),
		attr("idle", text, duration),
	),
	many("plugin", "name",
		attr("binary", text, execPath),
		attr("sha256", text),
		attr("enabled", yesNo),
		attr("owner", text),
		attr("grants", words),
		attr("env", "map(string)"),
		one("limits",
			attr("memory", text, size),
			attr("processes", number),
			attr("calls", number),
			attr("queue", number),
			attr("call_timeout", text, duration),
		),
		one("sandbox",
			attr("profile", text),
			attr("network", text),
			attr("read", words, readPath),
			attr("write", words, writePath),
			attr("exec", words, execPath),
		),
		one("restart_budget",
			attr("exits", number),
			attr("window", text, duration),
		),
		many("tools", "name",
			attr("tier", text),
			attr("exposure", text),
			attr("idempotent", yesNo),
			attr("timeout", text, duration),
			attr("accept_risk", text),
		),
		func(b *pluginv1.ConfigBody) {
			b.Blocks = append(b.Blocks, &pluginv1.ConfigBlock{TypeName: "config", MaxItems: 1, Body: rawConfig})
		},
	),
	many("agent", "name",
		attr("token", text, sensitive),
		attr("approver", yesNo),
		attr("model", text),
		attr("profile", text),
		attr("model_tier", text),
		attr("groups", words),
		attr("tools", words),
		attr("deny", words),
		attr("media", text),
	),
	many("profile", "name",
		attr("tools", words),
		attr("groups", words),
		attr("deny", words),
		attr("expansion", words),
	),
	many("team", "name",
		attr("mode", text),
		attr("supervisor", text),
		attr("workers", words),
		attr("tool_requests", text),
	),
	one("policy",
		attr("approval_reply_after", text, duration),
		many("tier", "name",
			attr("tools", words),
			attr("approval_timeout", text, duration),
			attr("accept_risk", text),
		),
		many("rule", "name",
			attr("tools", words, required),
			attr("when", text),
			attr("tier", text, required),
			attr("accept_risk", text),
		),
	),
)
