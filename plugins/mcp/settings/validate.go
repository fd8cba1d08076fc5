package settings

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk"
)

// serverName is the rule for names: with it the first __ of a typed name always
// ends the server's part.
var serverName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// CheckName says what is wrong with a server's name.
func CheckName(name string) error {
	switch {
	case !serverName.MatchString(name):
		return fmt.Errorf("server name %q: letters, digits, _ . and - are wanted, 1 to 64 of them, a letter or digit first", name)
	case strings.Contains(name, "__") || strings.HasSuffix(name, "_"):
		return fmt.Errorf("server name %q: no __ inside and no _ at the end, since {server}__{tool} is split there", name)
	}
	return nil
}

// Validate checks settings beyond their types.
func Validate(_ context.Context, s *Settings) sdk.Diagnostics {
	var d sdk.Diagnostics
	oneOf(&d, sdk.Attr("wrapper_mode"), s.WrapperMode, modes...)
	if m := s.WrapperModeByModelTier; m != nil {
		at := sdk.Block("wrapper_mode_by_model_tier", 0)
		for _, x := range [][2]string{{"low", m.Low}, {"balanced", m.Balanced}, {"high", m.High}} {
			oneOf(&d, at.Attr(x[0]), x[1], modes...)
		}
	}
	for i, e := range s.AllowHosts {
		if _, err := ParseAllowed(e); err != nil {
			d.Errorf(sdk.Attr("allow_hosts").Index(i), "%v", err)
		}
	}
	s.checkNumbers(&d)
	s.checkFile(&d)
	checkElicitation(&d, sdk.Block("default_elicitation", 0), s.DefaultElicitation)
	s.DefaultElicitation.checkShared(&d)
	seen := map[string]bool{}
	for i := range s.DefaultServers {
		x, at := &s.DefaultServers[i], sdk.Block("default_server", i)
		checkName(&d, at, x.Name, seen)
		checkURL(&d, at.Attr("url"), x.URL)
	}
	for i := range s.Servers {
		s.Servers[i].check(&d, sdk.Block("server", i), seen, s)
	}
	return d
}

// checkFile looks at the mcp.json as far as it can be seen from here. A missing one is
// no fault: the first server that is registered makes it.
func (s *Settings) checkFile(d *sdk.Diagnostics) {
	if s.MCPJSON == "" {
		return
	}
	switch info, err := os.Stat(s.MCPJSON); {
	case errors.Is(err, fs.ErrNotExist):
		d.Warnf(sdk.Attr("mcp_json"), "there is no such file yet, or it can't be seen by the plugin; it adds no servers until there is one")
	case err == nil && !info.Mode().IsRegular():
		d.Errorf(sdk.Attr("mcp_json"), "a file is wanted here, and this is none")
	}
}

var modes = []string{"off", "eager", "lazy", "pinned", "auto"}

func (s *Settings) checkNumbers(d *sdk.Diagnostics) {
	for _, x := range []struct {
		name     string
		v        sdk.Duration
		low, top time.Duration
	}{
		{"default_timeout", s.DefaultTimeout, time.Millisecond, 15 * time.Minute},
		{"max_timeout", s.MaxTimeout, time.Millisecond, 15 * time.Minute},
		{"connect_timeout", s.ConnectTimeout, 100 * time.Millisecond, 10 * time.Minute},
		{"reconnect_sweep", s.ReconnectSweep, time.Second, 24 * time.Hour},
		{"default_task_timeout", s.DefaultTaskTimeout, time.Second, 30 * 24 * time.Hour},
		{"task_poll_min", s.TaskPollMin, 10 * time.Millisecond, time.Hour},
		{"task_poll_max", s.TaskPollMax, 10 * time.Millisecond, time.Hour},
	} {
		if x.v.Std() < x.low || x.v.Std() > x.top {
			d.Errorf(sdk.Attr(x.name), "a time from %s to %s is wanted here, not %s", x.low, x.top, x.v)
		}
	}
	if s.TaskPollMin > s.TaskPollMax {
		d.Errorf(sdk.Attr("task_poll_min"), "task_poll_min %s is above task_poll_max %s", s.TaskPollMin, s.TaskPollMax)
	}
	if s.SurfaceRefresh < 0 || (s.SurfaceRefresh > 0 && s.SurfaceRefresh.Std() < time.Second) {
		d.Errorf(sdk.Attr("surface_refresh"), "0s (never) or a time from 1s is wanted here")
	}
	for _, x := range []struct {
		name   string
		v, low int
	}{
		{"max_pinned_servers", s.MaxPinnedServers, 0}, {"connect_retries", s.ConnectRetries, 0}, {"resource_inline_limit", s.ResourceInlineLimit, 100},
		{"max_pending_questions", s.MaxPending, 0}, {"max_pending_questions_per_session", s.MaxPendingPerSession, 0},
		{"max_tasks", s.MaxTasks, 0}, {"max_tasks_per_session", s.MaxTasksPerSession, 0}, {"task_poll_failures", s.TaskPollFailures, 1},
	} {
		if x.v < x.low || x.v > 1_000_000 {
			d.Errorf(sdk.Attr(x.name), "a number from %d to 1000000 is wanted here, not %d", x.low, x.v)
		}
	}
}

func (s *Server) check(d *sdk.Diagnostics, at sdk.Path, seen map[string]bool, all *Settings) {
	checkName(d, at, s.Name, seen)
	s.checkAll(d, at, all)
}

// checkAll checks all but the name.
func (s *Server) checkAll(d *sdk.Diagnostics, at sdk.Path, all *Settings) {
	oneOf(d, at.Attr("transport"), s.Transport, "auto", "http", "streamable-http", "sse", "stdio")
	oneOf(d, at.Attr("tier"), s.Tier, "standard", "elevated", "restricted")
	oneOf(d, at.Attr("isolation"), s.Isolation, "shared", "server")
	oneOf(d, at.Attr("naming"), s.Naming, "typed", "bare")
	switch stdio := s.Stdio(); {
	case stdio && s.URL != "":
		d.Errorf(at.Attr("url"), "server %q has a url and a command; one of the two says where it is", s.Name)
	case !stdio && s.URL == "":
		d.Errorf(at, "server %q needs a url or a command", s.Name)
	case stdio && s.Transport != "" && s.Transport != "auto" && s.Transport != "stdio":
		d.Errorf(at.Attr("transport"), "server %q is a command; its transport is stdio", s.Name)
	case !stdio && s.Transport == "stdio":
		d.Errorf(at.Attr("transport"), "server %q has no command; its transport is auto, http or sse", s.Name)
	case stdio:
		s.checkProgram(d, at)
	default:
		s.checkRemote(d, at)
	}
	for _, x := range []struct {
		name string
		v    sdk.Duration
	}{{"tool_timeout", s.ToolTimeout}, {"connect_timeout", s.ConnectTimeout}} {
		if x.v < 0 || x.v.Std() > 15*time.Minute {
			d.Errorf(at.Attr(x.name), "a time up to 15m is wanted here")
		}
	}
	if s.ToolTimeout > all.MaxTimeout {
		d.Warnf(at.Attr("tool_timeout"), "tool_timeout %s is cut to max_timeout %s", s.ToolTimeout, all.MaxTimeout)
	}
	for _, list := range []struct {
		name     string
		patterns []string
	}{
		{"allowed_tools", s.AllowedTools}, {"denied_tools", s.DeniedTools}, {"allowed_prompts", s.AllowedPrompts}, {"denied_prompts", s.DeniedPrompts},
		{"allowed_resources", s.AllowedResources}, {"denied_resources", s.DeniedResources},
	} {
		for i, p := range list.patterns {
			if p == "" {
				d.Errorf(at.Attr(list.name).Index(i), "an empty name matches nothing")
			}
		}
	}
	s.checkPolicies(d, at)
}

func (s *Server) checkProgram(d *sdk.Diagnostics, at sdk.Path) {
	if s.Command[0] == "" {
		d.Errorf(at.Attr("command").Index(0), "the program is missing")
	}
	for _, key := range slices.Sorted(maps.Keys(s.Env)) {
		if key == "" || strings.ContainsAny(key, "=\x00") {
			d.Errorf(at.Attr("env").Key(key), "%q is not a name of an environment variable", key)
		}
	}
	if len(s.Headers) > 0 || s.Auth != nil {
		d.Errorf(at.Attr("headers"), "headers and auth are for HTTP servers; server %q is a command", s.Name)
	}
	if b := s.Sandbox; b != nil {
		at := at.Block("sandbox", 0)
		oneOf(d, at.Attr("profile"), b.Profile, "strict", "none")
		oneOf(d, at.Attr("network"), b.Network, "all", "none")
	}
}

func (s *Server) checkRemote(d *sdk.Diagnostics, at sdk.Path) {
	checkURL(d, at.Attr("url"), s.URL)
	for _, key := range slices.Sorted(maps.Keys(s.Headers)) {
		if !headerName.MatchString(key) {
			d.Errorf(at.Attr("headers").Key(key), "%q is not a name of a header", key)
		}
		if unsendable(s.Headers[key]) {
			d.Errorf(at.Attr("headers").Key(key), "the value has a line break or another control character")
		}
		if s.Auth != nil && s.Auth.Bearer != "" && strings.EqualFold(key, "Authorization") {
			d.Warnf(at.Attr("headers").Key(key), "the header Authorization is not sent: auth says what is")
		}
	}
	if s.Auth != nil && s.Auth.Bearer == "" {
		d.Errorf(at.Block("auth", 0), "auth needs bearer; OAuth is not there yet")
	}
	if s.Auth != nil && unsendable(s.Auth.Bearer) {
		d.Errorf(at.Block("auth", 0).Attr("bearer"), "the token has a line break or another control character; trim what it is read from")
	}
	if len(s.Env) > 0 || s.Dir != "" || s.Sandbox != nil {
		d.Errorf(at, "env, dir and sandbox are for commands; server %q is a url", s.Name)
	}
}

// unsendable reports whether a value can't be a header's.
func unsendable(value string) bool {
	return strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// checkPolicies checks how calls of the server, its files and its questions are treated.
func (s *Server) checkPolicies(d *sdk.Diagnostics, at sdk.Path) {
	s.checkGuards(d, at)
	s.checkAttachments(d, at)
	checkElicitation(d, at.Block("elicitation", 0), s.Elicitation)
	s.checkHandback(d, at)
}

func checkName(d *sdk.Diagnostics, at sdk.Path, name string, seen map[string]bool) {
	if err := CheckName(name); err != nil {
		d.Errorf(at, "%v", err)
	}
	key := strings.ToLower(name)
	if seen[key] {
		d.Errorf(at, "two servers are called %q; names differ by more than case", name)
	}
	seen[key] = true
}

func checkURL(d *sdk.Diagnostics, at sdk.Path, raw string) {
	if err := CheckURL(raw); err != nil {
		d.Errorf(at, "%v", err)
	}
}

// CheckURL says what is wrong with a server's URL, without showing credentials.
func CheckURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return fmt.Errorf("the url can't be read")
	case (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		return fmt.Errorf(`a url such as "https://host/mcp" is wanted here`)
	case u.User != nil:
		return fmt.Errorf("no name or password in the url; use headers or auth")
	}
	return nil
}

func oneOf(d *sdk.Diagnostics, at sdk.Path, v string, choices ...string) {
	if v != "" && !slices.Contains(choices, v) {
		d.Errorf(at, "%q is not known here; %s are", v, strings.Join(choices, ", "))
	}
}

// Allowed is an exception from the rule that registered servers are public.
type Allowed struct {
	Host, Port string
	Prefix     netip.Prefix
}

// ParseAllowed reads host, host:port or a CIDR block.
func ParseAllowed(s string) (Allowed, error) {
	if p, err := netip.ParsePrefix(s); err == nil {
		return Allowed{Prefix: p.Masked()}, nil
	}
	if a, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return Allowed{Host: a.String()}, nil
	}
	u, err := url.Parse("http://" + s)
	if err != nil || u.Hostname() == "" || u.Host != s || strings.ContainsAny(s, "/@*") {
		return Allowed{}, fmt.Errorf("%q is neither a host, a host:port nor a CIDR block", s)
	}
	return Allowed{Host: strings.ToLower(u.Hostname()), Port: u.Port()}, nil
}
