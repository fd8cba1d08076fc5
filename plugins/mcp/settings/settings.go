package settings

import (
	"encoding/json"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk"
)

// Settings of the bridge.
type Settings struct {
	WrapperMode            string          `hcl:"wrapper_mode,optional" doc:"How typed tools are listed: auto (while they fit), eager (always), lazy, pinned or off (on demand)."`
	WrapperModeByModelTier *ModesByTier    `hcl:"wrapper_mode_by_model_tier,block" doc:"Another mode for agents of a model tier."`
	DefaultElicitation     *Elicitation    `hcl:"default_elicitation,block" doc:"Policy for questions of servers without a block of their own."`
	DefaultServers         []DefaultServer `hcl:"default_server,block" doc:"A server by URL alone, unless another block names the same URL."`
	Servers                []Server        `hcl:"server,block" doc:"An MCP server."`
	Management             bool            `hcl:"management,optional" doc:"Whether this instance offers the mcp_* tools; one instance does."`
	AllowHosts             []string        `hcl:"allow_hosts,optional" doc:"Private hosts, host:port pairs or CIDR blocks that mcp_register_server may name."`
	MaxPinnedServers       int             `hcl:"max_pinned_servers,optional" doc:"Servers whose tools stay listed in a session after a call (mode pinned)."`
	DefaultTimeout         sdk.Duration    `hcl:"default_timeout,optional" doc:"Time for one call."`
	MaxTimeout             sdk.Duration    `hcl:"max_timeout,optional" doc:"Most a tool_timeout may be."`
	ConnectTimeout         sdk.Duration    `hcl:"connect_timeout,optional" doc:"Time for a server to start, shake hands and list what it has."`
	ConnectRetries         int             `hcl:"connect_retries,optional" doc:"Quick retries of a failed connect before the slower backoff."`
	ReconnectSweep         sdk.Duration    `hcl:"reconnect_sweep,optional" doc:"Longest wait between two attempts to connect."`
	SurfaceRefresh         sdk.Duration    `hcl:"surface_refresh,optional" doc:"How often tools, prompts and resources are listed anew; 0s = only when the server says so."`
	ResourceInlineLimit    int             `hcl:"resource_inline_limit,optional" doc:"Characters of a text resource given inline; longer ones go to a file."`
	GenerateSummaries      bool            `hcl:"generate_summaries,optional" doc:"Let a model write each server's summary (needs the grant tool:llm_generate)."`
	MaxPending             int             `hcl:"max_pending_questions,optional" doc:"Open questions of servers."`
	MaxPendingPerSession   int             `hcl:"max_pending_questions_per_session,optional" doc:"Open questions of servers in one session."`
	MaxTasks               int             `hcl:"max_tasks,optional" doc:"Background tasks."`
	MaxTasksPerSession     int             `hcl:"max_tasks_per_session,optional" doc:"Background tasks of one session."`
	DefaultTaskTimeout     sdk.Duration    `hcl:"default_task_timeout,optional" doc:"Time for a background task."`
	TaskPollMin            sdk.Duration    `hcl:"task_poll_min,optional" doc:"Shortest time between two looks at a task."`
	TaskPollMax            sdk.Duration    `hcl:"task_poll_max,optional" doc:"Longest time between two looks at a task."`
	TaskPollFailures       int             `hcl:"task_poll_failures,optional" doc:"Failed looks in a row after which a task is lost."`
	MCPJSON                string          `hcl:"mcp_json,optional" bulkhead:"path=write" doc:"A watched mcp.json with further servers."`
}

// ModesByTier is wrapper_mode for single model tiers.
type ModesByTier struct {
	Low      string `hcl:"low,optional"`
	Balanced string `hcl:"balanced,optional"`
	High     string `hcl:"high,optional"`
}

// DefaultServer is a server by URL alone.
type DefaultServer struct {
	Name string `hcl:"name,label"`
	URL  string `hcl:"url"`
}

// Server is one MCP server.
type Server struct {
	Name             string            `hcl:"name,label"`
	Transport        string            `hcl:"transport,optional" doc:"auto, http (Streamable HTTP), sse or stdio; auto finds out."`
	URL              string            `hcl:"url,optional" doc:"Address of an HTTP server."`
	Command          []string          `hcl:"command,optional" doc:"Program and arguments of a stdio server."`
	Dir              string            `hcl:"dir,optional" doc:"Working folder of a stdio server."`
	Headers          map[string]string `hcl:"headers,optional" bulkhead:"sensitive" doc:"HTTP headers sent with every request."`
	Env              map[string]string `hcl:"env,optional" bulkhead:"sensitive" doc:"Environment of a stdio server; nothing else is passed on."`
	Auth             *Auth             `hcl:"auth,block" doc:"Credentials of an HTTP server."`
	AllowedTools     []string          `hcl:"allowed_tools,optional" doc:"Only these tools; * stands for any characters."`
	DeniedTools      []string          `hcl:"denied_tools,optional" doc:"Not these tools."`
	AllowedPrompts   []string          `hcl:"allowed_prompts,optional"`
	DeniedPrompts    []string          `hcl:"denied_prompts,optional"`
	AllowedResources []string          `hcl:"allowed_resources,optional" doc:"Only resources with these URIs."`
	DeniedResources  []string          `hcl:"denied_resources,optional"`
	ToolTimeout      sdk.Duration      `hcl:"tool_timeout,optional" doc:"Time for one call of this server; it beats default_timeout."`
	ConnectTimeout   sdk.Duration      `hcl:"connect_timeout,optional" doc:"Time for this server to start and list what it has."`
	Tier             string            `hcl:"tier,optional" doc:"standard, elevated or restricted."`
	Isolation        string            `hcl:"isolation,optional" doc:"shared or server."`
	Naming           string            `hcl:"naming,optional" doc:"typed ({server}__{tool}) or bare (the server's own names)."`
	Pin              bool              `hcl:"pin,optional" doc:"List this server's tools always."`
	Sandbox          *Sandbox          `hcl:"sandbox,block" doc:"Walls of a stdio server."`
	Attachments      *Attachments      `hcl:"attachments,block"`
	ArgGuards        []ArgGuard        `hcl:"arg_guard,block"`
	Elicitation      *Elicitation      `hcl:"elicitation,block"`
	Tasks            bool              `hcl:"tasks,optional" doc:"Let long calls become background tasks."`
	TaskTimeout      sdk.Duration      `hcl:"task_timeout,optional" doc:"Time for one background task of this server."`
	HandbackTTL      sdk.Duration      `hcl:"handback_ttl,optional" doc:"How long a question that was handed back stays open; 30m by default."`
	UploadFieldName  string            `hcl:"upload_field_name,optional"`
	EndpointPath     string            `hcl:"endpoint_path,optional"`

	// What only an mcp.json says.
	FromFile bool
	Agents   bool   // an agent registered it and no operator has touched it
	Problem  string // why it can't be connected
}

// Auth is how an HTTP server knows the bridge.
type Auth struct {
	Bearer string `hcl:"bearer,optional" bulkhead:"sensitive" doc:"Token sent as Authorization: Bearer."`
}

// Sandbox is what a stdio server may reach beyond its own folder, the machine's
// programs and what its command line names.
type Sandbox struct {
	Profile string   `hcl:"profile,optional" doc:"strict, or none: the server sees what the bridge sees."`
	Network string   `hcl:"network,optional" doc:"all or none."`
	Read    []string `hcl:"read,optional" bulkhead:"path=read"`
	Write   []string `hcl:"write,optional" bulkhead:"path=write"`
	Memory  sdk.Size `hcl:"memory,optional" doc:"Bytes of data segment."`
}

// Attachments is how files travel to and from a server.
type Attachments struct {
	Threshold sdk.Size  `hcl:"threshold,optional"`
	Outbound  *Outbound `hcl:"outbound,block"`
	Inbound   *Inbound  `hcl:"inbound,block"`
	Capture   *Capture  `hcl:"capture,block"`
}

// Outbound names the arguments that carry files.
type Outbound struct {
	ParamPaths []string `hcl:"param_paths"`
}

// Inbound names the tools that give files.
type Inbound struct {
	Tools []string `hcl:"tools"`
}

// Capture is how binary content of results becomes files.
type Capture struct {
	Enabled *bool  `hcl:"enabled,optional"`
	Rules   []Rule `hcl:"rule,block"`
}

// Rule finds base64 in a result's text.
type Rule struct {
	Tools         []string `hcl:"tools"`
	ContentField  string   `hcl:"content_field,optional"`
	NameField     string   `hcl:"name_field,optional"`
	MIMEField     string   `hcl:"mime_field,optional"`
	EncodingField string   `hcl:"encoding_field,optional"`
}

// ArgGuard checks arguments before they leave.
type ArgGuard struct {
	Handler string          `hcl:"handler,label"`
	Tools   []string        `hcl:"tools,optional"`
	Mode    string          `hcl:"mode,optional"`
	Options json.RawMessage `hcl:"options,optional"`
}

// Elicitation is the policy for questions a server asks during a call.
type Elicitation struct {
	Mode             string          `hcl:"mode,optional" doc:"auto, defaults, handback, decline, or off: the server is told that nobody answers."`
	MaxPerCall       *int            `hcl:"max_per_call,optional" doc:"Questions answered in one call; 3 by default."`
	Responder        string          `hcl:"responder,optional" doc:"llm, conversation or tool:NAME: who fills in what defaults leave open."`
	ResponderTimeout sdk.Duration    `hcl:"responder_timeout,optional" doc:"Time for the responder; 20s by default."`
	Defaults         json.RawMessage `hcl:"defaults,optional" doc:"Answers by field name, before and above the responder's."`
	DeniedFields     []string        `hcl:"denied_fields,optional" doc:"Fields never filled in, beside those that look like credentials."`
}

// Defaults are the settings before the operator's.
func Defaults() Settings {
	return Settings{
		WrapperMode: "auto", Management: true, MaxPinnedServers: 3,
		DefaultTimeout: sdk.Duration(time.Minute), MaxTimeout: sdk.Duration(15 * time.Minute), ConnectTimeout: sdk.Duration(30 * time.Second),
		ConnectRetries: 2, ReconnectSweep: sdk.Duration(time.Minute), SurfaceRefresh: sdk.Duration(5 * time.Minute),
		ResourceInlineLimit: 32000, GenerateSummaries: true,
		MaxPending: 50, MaxPendingPerSession: 5, MaxTasks: 20, MaxTasksPerSession: 3,
		DefaultTaskTimeout: sdk.Duration(time.Hour), TaskPollMin: sdk.Duration(500 * time.Millisecond), TaskPollMax: sdk.Duration(30 * time.Second), TaskPollFailures: 10,
	}
}

// Stdio reports whether the server is a program.
func (s *Server) Stdio() bool { return len(s.Command) > 0 }

// CallTimeout is the time one call of the server may take.
func (c *Settings) CallTimeout(s *Server) time.Duration {
	d := c.DefaultTimeout
	if s.ToolTimeout > 0 {
		d = s.ToolTimeout
	}
	return min(d, c.MaxTimeout).Std()
}

// ConnectTime is the time one attempt to connect may take, and the setting that
// says so.
func (c *Settings) ConnectTime(s *Server) time.Duration {
	if s.ConnectTimeout > 0 {
		return s.ConnectTimeout.Std()
	}
	return c.ConnectTimeout.Std()
}

// Exposure is how typed tools of the server are listed: for all agents, and by
// model tier where that differs.
func (c *Settings) Exposure(s *Server) (sdk.Exposure, map[string]sdk.Exposure) {
	if s.Pin {
		return sdk.Always, nil
	}
	byTier := map[string]sdk.Exposure{}
	if m := c.WrapperModeByModelTier; m != nil {
		for tier, mode := range map[string]string{"low": m.Low, "balanced": m.Balanced, "high": m.High} {
			if mode != "" {
				byTier[tier] = exposures[mode]
			}
		}
	}
	return exposures[c.WrapperMode], byTier
}

// Pins reports whether a call lists its server's other tools, for agents of a tier.
func (c *Settings) Pins(modelTier string) bool {
	mode := c.WrapperMode
	if m := c.WrapperModeByModelTier; m != nil {
		if own := map[string]string{"low": m.Low, "balanced": m.Balanced, "high": m.High}[modelTier]; own != "" {
			mode = own
		}
	}
	return mode == "pinned" || mode == "auto"
}

var exposures = map[string]sdk.Exposure{
	"auto": sdk.Fit, "eager": sdk.Always, "lazy": sdk.OnDemand, "pinned": sdk.OnDemand, "off": sdk.OnDemand,
}

// Tiers by name.
var Tiers = map[string]sdk.Tier{"": sdk.TierUnspecified, "standard": sdk.Standard, "elevated": sdk.Elevated, "restricted": sdk.Restricted}
