package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/settings"
	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/toolschema"
)

// manage makes one of the mcp_* tools.
func (b *Bridge) manage(name, schema string, tier sdk.Tier, f func(context.Context, *sdk.Call, arguments) (sdk.Result, error), opts ...sdk.ToolOption) *sdk.Tool {
	opts = append([]sdk.ToolOption{sdk.WithSource("mcp:management"), sdk.WithGroup("mcp"), sdk.WithTier(tier), sdk.WithTimeout(hostMax)}, opts...)
	return sdk.RawTool(name, descriptions[name], json.RawMessage(schema), func(ctx context.Context, call *sdk.Call) (sdk.Result, error) {
		args, err := readArguments(call.Arguments)
		if err != nil {
			return sdk.Result{}, err
		}
		return f(ctx, call, args)
	}, opts...)
}

// management is the offer of the mcp_* tools. Their schemas are written by hand:
// models get arguments wrong in ways that these take.
func (b *Bridge) management(c *settings.Settings) sdk.Offer {
	manage := b.manage
	const server = `"server_name":{"type":"string","description":"Name of the server, from mcp_list_services."}`
	return sdk.Offer{
		Tools: []*sdk.Tool{
			manage("mcp_list_services",
				`{"type":"object","properties":{}}`, sdk.Standard, b.listServices, sdk.ReadOnly()),
			manage("mcp_find_tools",
				`{"type":"object","properties":{"query":{"type":"string","description":"What the tool should do, or its name."},"limit":{"type":"integer","description":"Most matches, 1 to 25; 10 by default."}},"required":["query"]}`,
				sdk.Standard, b.findTools, sdk.ReadOnly()),
			manage("mcp_get_service_details",
				`{"type":"object","properties":{`+server+`,"tool_name":{"type":"string","description":"One tool of the server."}},"required":["server_name"]}`,
				sdk.Standard, b.details, sdk.ReadOnly()),
			manage("mcp_invoke_tool",
				`{"type":"object","properties":{`+server+`,"tool_name":{"type":"string","description":"The tool's own name, without the server's."},"arguments":{"type":"object","description":"Parameters of the tool."}},"required":["server_name","tool_name"]}`,
				sdk.Standard, b.invokeTool),
			manage("mcp_list_resources",
				`{"type":"object","properties":{`+server+`},"required":["server_name"]}`, sdk.Standard, b.listResources, sdk.ReadOnly()),
			manage("mcp_read_resource",
				`{"type":"object","properties":{`+server+`,"uri":{"type":"string","description":"The resource's URI, a template's variables filled in."}},"required":["server_name","uri"]}`,
				sdk.Elevated, b.readTool, sdk.ReadOnly()),
			manage("mcp_get_prompt",
				`{"type":"object","properties":{`+server+`,"prompt_name":{"type":"string","description":"Name of the prompt."},"arguments":{"type":"object","description":"Values of the prompt's arguments."}},"required":["server_name","prompt_name"]}`,
				sdk.Elevated, b.promptByName, sdk.ReadOnly()),
			manage("mcp_register_server",
				`{"type":"object","properties":{"name":{"type":"string","description":"A new name of letters, digits, _ . and -."},"type":{"type":"string","enum":["sse","http"],"description":"Kind of server; both try Streamable HTTP and SSE."},"url":`+string(urlSchema(c.AllowHosts))+`},"required":["name","url"]}`,
				sdk.Restricted, b.register),
			manage("mcp_unregister_server",
				`{"type":"object","properties":{`+server+`},"required":["server_name"]}`, sdk.Restricted, b.unregister),
			manage(searchServices,
				`{"type":"object","properties":{"query":{"type":"string","description":"Keywords for the task."}},"required":["query"]}`,
				sdk.Standard, b.searchKnown, sdk.ReadOnly(), sdk.WithGroup("core"), sdk.WithSource("service-search")),
			manage(toolschema.MCPServerIndex,
				string(toolschema.Arguments(toolschema.MCPServerIndex)), sdk.Standard, b.index, sdk.Internal(), sdk.ReadOnly(), sdk.Unshaped()),
		},
		Orientation: orientation(c.WrapperMode),
	}
}

// descriptions of the management tools; together they stay short, since every
// request of an agent carries them.
var descriptions = map[string]string{
	"mcp_list_services":       "Lists the MCP servers with their state and the names of their tools, prompts and resources.",
	"mcp_find_tools":          "Finds tools and prompts of MCP servers by words or by name. Gives each with its input schema and makes it callable.",
	"mcp_get_service_details": "Describes one MCP server: instructions, tools with schemas, prompts. With tool_name, that tool alone.",
	"mcp_invoke_tool":         "Calls a server's tool by the server's own name for it; for tools that are not listed. The tool's parameters go inside arguments.",
	"mcp_list_resources":      "Lists a server's resources and resource templates.",
	"mcp_read_resource":       "Reads one resource of a server. Long or binary content comes as the path of a file.",
	"mcp_get_prompt":          "Fills in a server's prompt and gives its messages, which are instructions to follow.",
	"mcp_register_server":     "Connects another MCP server by its URL and keeps it. Only for new names.",
	"mcp_unregister_server":   "Disconnects and forgets a server that was added by mcp_register_server.",
	searchServices:            "Ranks the known services by how well they fit a task, each with its best tools. For choosing where to go.",
	"mcp_answer":              "Answers a question that an MCP server asked during a call, or declines it, and gives what the call then gave. A decision is the user's: ask first, and answer when the user has said what to do.",
	"mcp_cancel_task":         "Stops a background task that this session started on an MCP server.",
	toolschema.MCPServerIndex: "Gives the servers with their tools, for other plugins.",
}

// arguments of a management tool, still as bytes.
type arguments map[string]json.RawMessage

func readArguments(raw json.RawMessage) (arguments, error) {
	var a arguments
	if err := json.Unmarshal(raw, &a); err != nil {
		return nil, sdk.Errorf(sdk.InvalidArguments, "the arguments are not a JSON object: %s", clip(string(raw), 200))
	}
	return a, nil
}

// text is an argument that must be there.
func (a arguments) text(key, what string) (string, error) {
	s := a.optional(key)
	if s == "" {
		return "", sdk.Errorf(sdk.InvalidArguments, "%q is required: %s. Sent: %s", key, what, clip(string(quote(map[string]json.RawMessage(a))), 300))
	}
	return s, nil
}

func (a arguments) optional(key string) string {
	var s string
	_ = json.Unmarshal(a[key], &s) // another type is as good as none
	return strings.TrimSpace(s)
}

func (b *Bridge) server(a arguments) (*server, error) {
	name, err := a.text("server_name", "a name from mcp_list_services")
	if err != nil {
		return nil, err
	}
	return b.find(name)
}

type serviceRow struct {
	ServerName    string   `json:"serverName"`
	ServerID      string   `json:"serverId"`
	State         string   `json:"state"`
	Error         string   `json:"error,omitempty"`
	NextAttempt   string   `json:"nextAttempt,omitempty"`
	Note          string   `json:"note,omitempty"`
	Summary       string   `json:"summary,omitempty"`
	ToolCount     int      `json:"toolCount"`
	ToolNames     []string `json:"toolNames"`
	PromptCount   int      `json:"promptCount"`
	PromptNames   []string `json:"promptNames"`
	ResourceCount int      `json:"resourceCount,omitempty"`
	ResourceNames []string `json:"resourceNames,omitempty"`
}

func (b *Bridge) listServices(context.Context, *sdk.Call, arguments) (sdk.Result, error) {
	rows := []serviceRow{}
	for _, s := range b.all() {
		st := s.status()
		row := serviceRow{ServerName: s.conf.Name, ServerID: s.id[:12], State: st.State, Error: st.Reason, Note: st.Note, ToolNames: []string{}, PromptNames: []string{}}
		if !st.Next.IsZero() && st.State == stateFailed {
			row.NextAttempt = st.Next.UTC().Format(time.RFC3339)
		}
		if v := s.last(); v != nil {
			row.Summary = s.summary(v)
			row.ToolNames, row.ToolCount = v.toolNames(), len(v.tools)
			for _, p := range v.prompts {
				row.PromptNames = append(row.PromptNames, p.Name)
			}
			row.PromptCount = len(v.prompts)
			for _, r := range v.surface.Resources {
				row.ResourceNames = append(row.ResourceNames, orElse(r.Name, r.URI))
			}
			for _, r := range v.surface.Templates {
				row.ResourceNames = append(row.ResourceNames, orElse(r.Name, r.URITemplate))
			}
			row.ResourceCount = len(row.ResourceNames)
			row.ResourceNames = row.ResourceNames[:min(len(row.ResourceNames), 20)]
		}
		rows = append(rows, row)
	}
	return asText(rows)
}

// counted says what a server has, when no model wrote something better.
func counted(v *view) string {
	var parts []string
	names := v.toolNames()
	if len(names) > 0 {
		parts = append(parts, fmt.Sprintf("%d tools: %s", len(names), list(names, 10)))
	}
	names = nil
	for _, p := range v.prompts {
		names = append(names, p.Name)
	}
	if len(names) > 0 {
		parts = append(parts, fmt.Sprintf("%d prompts: %s", len(names), list(names, 10)))
	}
	if n := len(v.surface.Resources) + len(v.surface.Templates); n > 0 {
		parts = append(parts, fmt.Sprintf("%d resource(s)", n))
	}
	return strings.Join(parts, "; ")
}

type toolRow struct {
	Name        string          `json:"name"`
	TypedName   string          `json:"typedName"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

type promptRow struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Arguments   json.RawMessage `json:"arguments,omitempty"`
	TypedName   string          `json:"typedName"`
}

func (b *Bridge) details(ctx context.Context, call *sdk.Call, a arguments) (sdk.Result, error) {
	s, err := b.server(a)
	if err != nil {
		return sdk.Result{}, err
	}
	type head struct {
		Name           string `json:"name"`
		ID             string `json:"id"`
		Implementation string `json:"implementationName"`
		Title          string `json:"title"`
		Version        string `json:"version"`
		Protocol       string `json:"protocol"`
		Instructions   string `json:"instructions"`
	}
	out := struct {
		Server  head        `json:"server"`
		Tools   []toolRow   `json:"tools"`
		Prompts []promptRow `json:"prompts"`
	}{Tools: []toolRow{}, Prompts: []promptRow{}}
	var v *view
	err = s.look(ctx, func(l *link, x *view) error {
		v = x
		i := &l.conn.Info
		out.Server = head{s.conf.Name, s.id[:12], i.Name, i.Title, i.Release, i.Version, capInstructions(i.Instructions, 2000, v)}
		return nil
	})
	if err != nil {
		return sdk.Result{}, err
	}
	if b.lostAny(ctx, call, v.typedNames()) {
		v = s.last()
	}
	tools, typed := v.tools, v.typedNames()
	if name := a.optional("tool_name"); name != "" {
		t, ok := v.tool(name)
		if !ok {
			return sdk.Result{}, sdk.Errorf(sdk.ToolNotFound, "server %q has no tool %q; it has: %s", s.conf.Name, name, orElse(list(v.toolNames(), 60), "none"))
		}
		tools, typed = []entry{t}, []string{t.typed}
	} else {
		for _, p := range v.prompts {
			out.Prompts = append(out.Prompts, promptRow{p.Name, p.Description, p.RawArguments, p.typed})
		}
	}
	for _, t := range tools {
		out.Tools = append(out.Tools, toolRow{t.Name, t.typed, t.Description, t.InputSchema})
	}
	r, err := asText(out)
	if err != nil {
		return r, err
	}
	text := r.Content[0].Text
	if n := len(v.surface.Resources) + len(v.surface.Templates); n > 0 {
		text += fmt.Sprintf("\n\nThe server has %d resources and templates; mcp_list_resources names them.", n)
	}
	if len(typed) > 0 {
		_, note := b.activated(ctx, call, typed)
		text += "\n\n" + note
	}
	return sdk.TextResult(text), nil
}

// activated lists typed tools in the session and says how they can be called.
func (b *Bridge) activated(ctx context.Context, call *sdk.Call, typed []string) (map[string]bool, string) {
	on := map[string]bool{}
	if call.SessionRef != "" && call.ListsFindTools { // a closed list gains nothing
		done, _, err := call.Host().Session().Activate(ctx, typed...)
		if err != nil {
			b.plugin.Logger().Debug("tools are not activated", "error", err)
		}
		for _, n := range done {
			on[n] = true
		}
	}
	return on, "Callable by typed name: " + list(typed, 20) + ". Where your tool list lacks one, use call_tool with its name and arguments, or mcp_invoke_tool."
}

var guideWords = []string{"guide", "skill", "help", "instructions", "readme", "docs"}

// capInstructions cuts a server's instructions at a line, and says so.
func capInstructions(text string, most int, v *view) string {
	runes := []rune(strings.ToValidUTF8(text, "\uFFFD"))
	if len(runes) <= most {
		return string(runes)
	}
	cut := string(runes[:most])
	if i := strings.LastIndexByte(cut, '\n'); i >= len(cut)/2 {
		cut = cut[:i]
	}
	cut = strings.TrimRight(cut, " \t\r\n")
	marker := fmt.Sprintf("[Server instructions truncated: %d of %d characters shown.", len([]rune(cut)), len(runes))
	var guides []string
	for _, t := range v.tools {
		if slices.ContainsFunc(guideWords, func(w string) bool { return strings.Contains(strings.ToLower(t.Name), w) }) {
			guides = append(guides, t.typed)
		}
	}
	if len(guides) > 0 {
		marker += " These tools may tell the rest: " + list(guides, 5) + "."
	}
	return cut + "\n\n" + marker + "]"
}

// invokeTool calls the typed tool by way of the host, so that the target's own
// rules hold.
func (b *Bridge) invokeTool(ctx context.Context, call *sdk.Call, a arguments) (sdk.Result, error) {
	s, err := b.server(a)
	if err != nil {
		return sdk.Result{}, err
	}
	name, err := a.text("tool_name", "the server's own name of the tool")
	if err != nil {
		return sdk.Result{}, err
	}
	v := s.last()
	if v == nil {
		if err := s.look(ctx, func(_ *link, x *view) error { v = x; return nil }); err != nil {
			return sdk.Result{}, err
		}
	}
	t, ok := v.tool(name)
	if !ok {
		if server, tool, found := strings.Cut(name, "__"); found {
			return sdk.Result{}, sdk.Errorf(sdk.ToolNotFound, `server %q has no tool %q. server_name and tool_name are two arguments: {"server_name":%q,"tool_name":%q,"arguments":{…}}; %q has: %s`,
				s.conf.Name, name, server, tool, s.conf.Name, list(v.toolNames(), 40))
		}
		return sdk.Result{}, sdk.Errorf(sdk.ToolNotFound, "server %q has no tool %q; it has: %s", s.conf.Name, name, orElse(list(v.toolNames(), 60), "none"))
	}
	inner, given := a.inner()
	if !given && len(t.Required) > 0 {
		example := map[string]string{}
		for _, r := range t.Required {
			example[r] = "…"
		}
		return sdk.Result{}, sdk.Errorf(sdk.InvalidArguments, `%q of %q needs %s inside arguments: {"server_name":%q,"tool_name":%q,"arguments":%s}`,
			t.Name, s.conf.Name, strings.Join(t.Required, ", "), s.conf.Name, t.Name, quote(example))
	}
	return s.callOwn(ctx, call, t.Name, inner)
}

// inner are the target's arguments: under arguments, params or args, or what
// stands beside the names when they were forgotten.
func (a arguments) inner() (json.RawMessage, bool) {
	reserved := []string{"server_name", "tool_name", "arguments", "params", "args"}
	for _, key := range reserved[2:] {
		raw := a[key]
		var s string
		if json.Unmarshal(raw, &s) == nil && strings.HasPrefix(strings.TrimSpace(s), "{") && json.Valid([]byte(s)) {
			raw = json.RawMessage(s)
		}
		var m map[string]json.RawMessage
		if json.Unmarshal(raw, &m) == nil && m != nil {
			if len(m) > 0 {
				return raw, true
			}
			break
		}
	}
	rest := arguments{}
	for k, v := range a {
		if !slices.Contains(reserved, strings.ToLower(k)) {
			rest[k] = v
		}
	}
	if len(rest) == 0 {
		return json.RawMessage("{}"), false
	}
	raw, err := json.Marshal(rest)
	return raw, err == nil
}

func (b *Bridge) promptByName(ctx context.Context, _ *sdk.Call, a arguments) (sdk.Result, error) {
	s, err := b.server(a)
	if err != nil {
		return sdk.Result{}, err
	}
	name, err := a.text("prompt_name", "the name of a prompt of the server")
	if err != nil {
		return sdk.Result{}, err
	}
	return s.promptText(ctx, name, a["arguments"])
}

func (b *Bridge) listResources(ctx context.Context, _ *sdk.Call, a arguments) (sdk.Result, error) {
	s, err := b.server(a)
	if err != nil {
		return sdk.Result{}, err
	}
	var v *view
	if err := s.look(ctx, func(_ *link, x *view) error { v = x; return nil }); err != nil {
		return sdk.Result{}, err
	}
	if len(v.surface.Resources)+len(v.surface.Templates) == 0 {
		return sdk.Textf("Server %q has no resources.", s.conf.Name), nil
	}
	return asText(map[string]any{"server": s.conf.Name, "resources": orEmpty(v.surface.Resources), "templates": orEmpty(v.surface.Templates)})
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (b *Bridge) readTool(ctx context.Context, _ *sdk.Call, a arguments) (sdk.Result, error) {
	s, err := b.server(a)
	if err != nil {
		return sdk.Result{}, err
	}
	uri, err := a.text("uri", "the URI of a resource of the server")
	if err != nil {
		return sdk.Result{}, err
	}
	return s.readResource(ctx, uri)
}
