package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/splice"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// ErrSuspect says that an mcp.json can't be what was meant: it is not empty and
// has no servers. Nothing may be written over it.
var ErrSuspect = errors.New("suspect")

// entry is a server as mcp.json has it.
type entry struct {
	ID        string            `json:"id"`
	Origin    string            `json:"origin"`
	Type      string            `json:"type"`
	URL       string            `json:"url"`
	Transport string            `json:"transportMode"`
	Command   string            `json:"command"`
	Args      []string          `json:"args"`
	Env       map[string]string `json:"env"`
	Headers   map[string]string `json:"headers"`
	Disabled  bool              `json:"disabled"`
	Auth      *struct {
		Profile string `json:"profile"`
		Bearer  string `json:"bearer"`
	} `json:"auth"`
	AllowedTools []string `json:"allowedTools"`
	DeniedTools  []string `json:"deniedTools"`
	ToolTimeout  *float64 `json:"toolTimeoutMs"`
	Attachments  *struct {
		Threshold   int64  `json:"thresholdBytes"`
		UploadField string `json:"uploadFieldName"`
		Endpoint    string `json:"endpointPath"`
		Outbound    *struct {
			ParamPaths []string `json:"paramPaths"`
		} `json:"outbound"`
		Inbound *struct {
			Tools []string `json:"tools"`
		} `json:"inbound"`
		Capture *struct {
			Enabled *bool `json:"enabled"`
			Rules   []struct {
				Tools    []string `json:"tools"`
				Content  string   `json:"contentField"`
				Name     string   `json:"nameField"`
				MIME     string   `json:"mimeField"`
				Encoding string   `json:"encodingField"`
			} `json:"rules"`
		} `json:"capture"`
	} `json:"attachments"`
	ArgGuards []struct {
		Handler string          `json:"handler"`
		Tools   []string        `json:"tools"`
		Mode    string          `json:"mode"`
		Options json.RawMessage `json:"options"`
	} `json:"argGuards"`
	Elicitation *struct {
		Mode             string          `json:"mode"`
		MaxPerCall       *int            `json:"maxPerCall"`
		Responder        string          `json:"responder"`
		ResponderTimeout float64         `json:"responderTimeoutMs"`
		Defaults         json.RawMessage `json:"defaults"`
		DeniedFields     []string        `json:"deniedFields"`
	} `json:"elicitation"`
	Tasks       bool    `json:"tasks"`
	TaskTimeout float64 `json:"taskTimeoutMinutes"`
}

// FromJSON is what an mcp.json says beyond a server's settings.
type FromJSON struct {
	Server
	ID string // of the file; empty = none yet
}

// agentOrigin marks entries that an agent registered.
const agentOrigin = "agent"

// ReadJSON reads an mcp.json. lookup gives the variables that ${NAME} may stand
// for. A server with a fault is there with its Problem; notes are for the log.
func ReadJSON(raw []byte, lookup func(string) (string, bool), all *Settings) (servers []FromJSON, notes []string, err error) {
	raw = bytes.TrimPrefix(bytes.TrimSpace(raw), []byte("\xef\xbb\xbf"))
	if len(raw) == 0 {
		return nil, nil, nil
	}
	if !json.Valid(raw) {
		return nil, nil, fmt.Errorf("%w: it is not JSON: %w", ErrSuspect, json.Unmarshal(raw, new(any)))
	}
	top, ok := splice.Object(raw)
	if !ok {
		return nil, nil, fmt.Errorf(`%w: it is no object with "mcpServers"`, ErrSuspect)
	}
	notes = twice("", top)
	list, has := top.Get("mcpServers")
	members, ok := splice.Object(list)
	switch {
	case has && !ok:
		return nil, nil, fmt.Errorf(`%w: "mcpServers" is no object`, ErrSuspect)
	case len(members.All) == 0 && len(top.All) > map[bool]int{true: 1, false: 0}[has]:
		return nil, nil, fmt.Errorf(`%w: it is not empty, but has no "mcpServers"`, ErrSuspect)
	}
	seen := map[string]bool{}
	for _, m := range members.All {
		at := "mcpServers." + m.Key
		switch key := strings.ToLower(m.Key); {
		case seen[key]:
			notes = append(notes, at+": another entry has this name, in whatever case; it is left out")
			continue
		case m.Key == "" || len(m.Key) > 128 || strings.ContainsAny(m.Key, "/\\\x00\r\n") || strings.HasPrefix(m.Key, "."):
			notes = append(notes, at+": a name no server may have; it is left out")
			continue
		default:
			seen[key] = true
		}
		if err := CheckName(m.Key); err != nil {
			notes = append(notes, at+": an odd name is kept: "+err.Error())
		}
		s := FromJSON{Server: Server{Name: m.Key, FromFile: true}}
		var e entry
		if err := json.Unmarshal(m.Value, &e); err != nil {
			s.Problem = unfit(at, err)
			servers = append(servers, s)
			continue
		}
		s.ID = e.ID
		if o, ok := splice.Object(m.Value); ok {
			notes = append(notes, twice(at+".", o)...)
		}
		if e.URL != "" && e.Command != "" {
			notes = append(notes, at+" has a url and a command; the url is taken and the command ignored: keep one of the two")
		}
		if err := e.expand(at, lookup); err != nil {
			s.Problem = err.Error()
		}
		e.into(&s.Server)
		if e.ToolTimeout != nil && *e.ToolTimeout <= 0 {
			notes = append(notes, at+".toolTimeoutMs: a number above 0 is wanted; it is ignored")
		}
		if s.Problem == "" {
			s.Problem = s.problem(at, &e, all)
		}
		servers = append(servers, s)
	}
	return servers, notes, nil
}

// twice tells of members that stand in an object more than once: one of them is lost.
func twice(at string, o splice.List) (notes []string) {
	seen := map[string]int{}
	for _, m := range o.All {
		key := strings.ToLower(m.Key)
		if seen[key]++; seen[key] == 2 {
			notes = append(notes, fmt.Sprintf("%s%s stands there more than once, in whatever case; only one of them counts", at, clip(m.Key, 60)))
		}
	}
	return notes
}

// unfit says what of an entry is of another kind than it should be.
func unfit(at string, err error) string {
	var typ *json.UnmarshalTypeError
	if !errors.As(err, &typ) {
		return fmt.Sprintf("%s can't be read: %v", at, err)
	}
	if typ.Field != "" {
		at += "." + typ.Field
	}
	wanted := "an object"
	switch typ.Type.Kind() {
	case reflect.String:
		wanted = "a text"
	case reflect.Bool:
		wanted = "true or false"
	case reflect.Slice:
		wanted = "a list"
	case reflect.Int, reflect.Int64, reflect.Float64:
		wanted = "a number"
	}
	is, _, _ := strings.Cut(typ.Value, " ") // of a number the value follows
	return fmt.Sprintf("%s: %s is wanted here, not %s", at, wanted, map[string]string{"string": "a text", "bool": "true or false", "array": "a list", "number": "a number", "object": "an object"}[is])
}

func (e *entry) into(s *Server) {
	s.URL, s.Headers, s.Env = e.URL, e.Headers, e.Env
	if e.URL == "" && e.Command != "" {
		s.Command = append([]string{e.Command}, e.Args...)
	} else {
		s.Env = nil
	}
	if s.URL != "" {
		switch strings.ToLower(strings.TrimSpace(e.Transport)) {
		case "sse":
			s.Transport = "sse"
		case "streamable-http", "streamable", "http":
			s.Transport = "http"
		}
	}
	if e.Auth != nil && e.Auth.Bearer != "" {
		s.Auth = &Auth{Bearer: e.Auth.Bearer}
	}
	s.AllowedTools, s.DeniedTools = e.AllowedTools, e.DeniedTools
	if e.ToolTimeout != nil && *e.ToolTimeout > 0 {
		s.ToolTimeout = sdk.Duration(min(*e.ToolTimeout, float64(15*time.Minute/time.Millisecond)) * float64(time.Millisecond))
	}
	if a := e.Attachments; a != nil {
		s.Attachments = &Attachments{Threshold: sdk.Size(a.Threshold)}
		s.UploadFieldName, s.EndpointPath = a.UploadField, a.Endpoint
		if a.Outbound != nil {
			s.Attachments.Outbound = &Outbound{ParamPaths: a.Outbound.ParamPaths}
		}
		if a.Inbound != nil {
			s.Attachments.Inbound = &Inbound{Tools: a.Inbound.Tools}
		}
		if c := a.Capture; c != nil {
			s.Attachments.Capture = &Capture{Enabled: c.Enabled}
			for _, r := range c.Rules {
				s.Attachments.Capture.Rules = append(s.Attachments.Capture.Rules, Rule{r.Tools, r.Content, r.Name, r.MIME, r.Encoding})
			}
		}
	}
	for _, g := range e.ArgGuards {
		s.ArgGuards = append(s.ArgGuards, ArgGuard{g.Handler, g.Tools, g.Mode, g.Options})
	}
	if x := e.Elicitation; x != nil {
		s.Elicitation = &Elicitation{Mode: x.Mode, MaxPerCall: x.MaxPerCall, Responder: x.Responder, Defaults: x.Defaults, DeniedFields: x.DeniedFields,
			ResponderTimeout: sdk.Duration(max(x.ResponderTimeout, 0) * float64(time.Millisecond))}
	}
	s.Tasks = e.Tasks
	s.TaskTimeout = sdk.Duration(max(e.TaskTimeout, 0) * float64(time.Minute))
	// What an agent added and no operator has touched is the agent's.
	s.Agents = strings.EqualFold(e.Origin, agentOrigin) && len(s.AllowedTools)+len(s.DeniedTools)+len(s.Headers)+len(s.ArgGuards) == 0 &&
		e.Auth == nil && s.Elicitation == nil && s.Attachments == nil && s.ToolTimeout == 0 && !s.Tasks && s.TaskTimeout == 0 && s.Transport == ""
}

// problem says why an entry can't be connected; empty = it can.
func (s *Server) problem(at string, e *entry, all *Settings) string {
	switch kind := strings.ToLower(strings.TrimSpace(e.Type)); {
	case e.Disabled:
		return at + ".disabled is set"
	case e.Auth != nil && e.Auth.Profile != "":
		return at + `.auth.profile: there are no profiles here; give auth.bearer or headers, as in "Bearer ${TOKEN}"`
	case s.URL == "" && slices.Contains([]string{"sse", "http", "streamable-http"}, kind):
		return fmt.Sprintf("%s.url is missing; type %q needs one", at, e.Type)
	}
	var d sdk.Diagnostics
	s.checkAll(&d, sdk.Path{}, all) // odd names were let through before
	for _, x := range d {
		if !x.Warning {
			return strings.TrimSuffix(at+"."+x.Path.String(), ".") + ": " + x.Summary
		}
	}
	return ""
}

var variable = regexp.MustCompile(`\$?\$\{([^}]*)\}?`)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand puts variables into the texts that may have them.
func (e *entry) expand(at string, lookup func(string) (string, bool)) error {
	var errs []error
	do := func(where string, s *string) {
		text, err := expand(*s, lookup)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s.%s: %w", at, where, err))
		}
		*s = text
	}
	do("url", &e.URL)
	do("command", &e.Command)
	for i := range e.Args {
		do(fmt.Sprintf("args[%d]", i), &e.Args[i])
	}
	for where, m := range map[string]map[string]string{"env": e.Env, "headers": e.Headers} {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			v := m[key]
			do(where+"."+key, &v)
			m[key] = v
		}
	}
	if e.Auth != nil {
		do("auth.bearer", &e.Auth.Bearer)
	}
	return errors.Join(errs...)
}

func expand(s string, lookup func(string) (string, bool)) (string, error) {
	var errs []error
	out := variable.ReplaceAllStringFunc(s, func(m string) string {
		if strings.HasPrefix(m, "$$") {
			return m[1:]
		}
		name := strings.TrimSuffix(strings.TrimPrefix(m, "${"), "}")
		value, ok := "", false
		switch {
		case !variableName.MatchString(name) || !strings.HasSuffix(m, "}"):
			errs = append(errs, fmt.Errorf("%s can't be read; ${NAME} stands for a variable, $${…} for the text ${…}", clip(m, 60)))
		default:
			if value, ok = lookup(name); !ok {
				errs = append(errs, fmt.Errorf("${%s} is not set; add it to env in the plugin's block, as in env = { %s = env(%q) }, or write $${%s} for the text", name, name, name, name))
			}
		}
		return value
	})
	return out, errors.Join(errs...)
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
