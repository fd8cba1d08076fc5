package bridge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/settings"
	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/netguard"
)

// registration is what is kept of a server an agent added.
type registration struct {
	Name string    `json:"name"`
	URL  string    `json:"url"`
	By   string    `json:"by,omitempty"`
	At   time.Time `json:"at"`
}

const maxRegistered = 100

func (b *Bridge) loadRegistered(ctx context.Context) ([]settings.Server, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	entries, _, err := b.plugin.Host().State().List(ctx, "registered/", "", maxRegistered)
	if err != nil {
		return nil, err
	}
	var out []settings.Server
	for _, e := range entries {
		raw, _, found, err := b.plugin.Host().State().Get(ctx, e.Key)
		if err != nil {
			return out, err
		}
		var r registration
		if found && json.Unmarshal(raw, &r) == nil && settings.CheckName(r.Name) == nil && settings.CheckURL(r.URL) == nil {
			out = append(out, settings.Server{Name: r.Name, URL: r.URL})
		}
	}
	return out, nil
}

func (b *Bridge) register(ctx context.Context, call *sdk.Call, a arguments) (sdk.Result, error) {
	name, err := a.text("name", "a new name for the server")
	if err != nil {
		return sdk.Result{}, err
	}
	address, err := a.text("url", "the server's address")
	if err != nil {
		return sdk.Result{}, err
	}
	if err := settings.CheckName(name); err != nil {
		return sdk.Result{}, sdk.Errorf(sdk.InvalidArguments, "%v", err)
	}
	if err := settings.CheckURL(address); err != nil {
		return sdk.Result{}, sdk.Errorf(sdk.InvalidArguments, "%v", err)
	}
	if err := b.publicURL(address); err != nil {
		return sdk.Result{}, sdk.Errorf(sdk.Denied, "%v", err)
	}
	for key := range a {
		if key != "name" && key != "url" && key != "type" {
			return sdk.Result{}, sdk.Errorf(sdk.InvalidArguments, "%q can't be set here: a server is registered by name, type and url alone; the rest is the operator's", key)
		}
	}
	tried := func(v *view, err error) (sdk.Result, error) {
		if err != nil {
			return sdk.Textf("Server %q is registered but not connected: %v. It is tried again; mcp_unregister_server removes it.", name, err), nil
		}
		return sdk.Textf("Server %q is connected; it has %d tools: %s.", name, len(v.tools), orElse(list(v.typedNames(), 20), "none")), nil
	}
	s, err := b.keep(ctx, registration{name, address, call.Agent, time.Now().UTC()})
	if err != nil {
		return sdk.Result{}, err
	}
	var v *view
	err = s.look(ctx, func(_ *link, x *view) error { v = x; return nil })
	return tried(v, err)
}

// keep admits a server and writes it down: into the mcp.json where there is one,
// else into the plugin's state.
func (b *Bridge) keep(ctx context.Context, r registration) (*server, error) {
	b.changing.Lock()
	defer b.changing.Unlock()
	b.mu.Lock()
	file := b.file
	b.mu.Unlock()
	s, err := b.admit(settings.Server{Name: r.Name, URL: r.URL, FromFile: file != nil, Agents: file != nil})
	if err != nil {
		return nil, err
	}
	if file != nil {
		err = file.register(r.Name, r.URL)
	} else {
		var raw []byte
		if raw, err = json.Marshal(r); err == nil {
			_, err = b.plugin.Host().State().Put(ctx, "registered/"+strings.ToLower(r.Name), raw, false)
		}
	}
	if err != nil {
		b.forget(s)
		return nil, fmt.Errorf("the server can't be kept: %w", err)
	}
	return s, nil
}

// admit adds a registered server, unless one like it is there.
func (b *Bridge) admit(conf settings.Server) (*server, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.run == nil || b.stopped {
		return nil, sdk.Errorf(sdk.Unavailable, "the bridge is not serving").After(time.Second)
	}
	registered := 0
	for _, s := range b.servers {
		switch {
		case strings.EqualFold(s.conf.Name, conf.Name) && s.agent:
			return nil, sdk.Errorf(sdk.Conflict, "server %q is registered already; unregister it first", conf.Name)
		case strings.EqualFold(s.conf.Name, conf.Name):
			return nil, sdk.Errorf(sdk.Conflict, "server %q is managed by the operator; choose another name", conf.Name)
		case s.id == identity(&conf):
			return nil, sdk.Errorf(sdk.Conflict, "server %q is this very server; use it by that name", s.conf.Name)
		}
		if s.agent {
			registered++
		}
	}
	if registered >= maxRegistered {
		return nil, sdk.Errorf(sdk.Conflict, "%d servers are registered, and that is the most; unregister one first", registered)
	}
	s := b.add(conf, true)
	s.start(b.run)
	return s, nil
}

func (b *Bridge) unregister(ctx context.Context, _ *sdk.Call, a arguments) (sdk.Result, error) {
	s, err := b.server(a)
	if err != nil {
		return sdk.Result{}, err
	}
	if !s.agent {
		return sdk.Result{}, sdk.Errorf(sdk.Denied, "server %q is managed by the operator and can't be removed here", s.conf.Name)
	}
	b.changing.Lock()
	defer b.changing.Unlock()
	b.mu.Lock()
	file := b.file
	b.mu.Unlock()
	if s.conf.FromFile && file != nil {
		err = file.unregister(s.conf.Name)
	} else {
		_, err = b.plugin.Host().State().Delete(ctx, "registered/"+strings.ToLower(s.conf.Name))
	}
	if err != nil {
		return sdk.Result{}, fmt.Errorf("the server can't be removed: %w", err)
	}
	b.forget(s)
	return sdk.Textf("Server %q is disconnected and removed.", s.conf.Name), nil
}

// forget takes a server away.
func (b *Bridge) forget(s *server) {
	key := strings.ToLower(s.conf.Name)
	b.mu.Lock()
	if b.servers[key] == s {
		delete(b.servers, key)
		b.order = slices.DeleteFunc(b.order, func(k string) bool { return k == key })
	}
	b.mu.Unlock()
	s.halt()
	b.plugin.Offers().Remove(s.set())
	s.discard()
	b.renamed()
}

// identity of a server's settings as far as they say which server it is and what
// is open of it; it is a hash, since headers and env hold secrets.
func identity(c *settings.Server) string {
	parts := []string{c.Transport, normalURL(c.URL), strings.Join(c.Command, "\x1e"), c.Dir}
	for _, m := range []map[string]string{c.Env, c.Headers} {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			parts = append(parts, strings.ToLower(k)+"="+m[k])
		}
		parts = append(parts, "\x1d")
	}
	if c.Auth != nil {
		parts = append(parts, c.Auth.Bearer)
	}
	for _, l := range [][]string{c.AllowedTools, c.DeniedTools} {
		lower := strings.Split(strings.ToLower(strings.Join(l, "\x1e")), "\x1e")
		parts = append(parts, strings.Join(slices.Sorted(slices.Values(lower)), "\x1e"))
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x1f")))
	return hex.EncodeToString(sum[:])
}

func normalURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return strings.ToLower(strings.TrimRight(raw, "/"))
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	return strings.TrimRight(u.String(), "/")
}

func sameURL(a, b string) bool { return a != "" && normalURL(a) == normalURL(b) }

// publicURL refuses addresses that are private at first sight; what a name leads
// to is checked when it is dialled.
func (b *Bridge) publicURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil {
		return err
	}
	host := u.Hostname()
	if addr, err := netip.ParseAddr(host); err == nil {
		return b.mayDial(raw, b.conf.Get)(netip.AddrPortFrom(addr, 0))
	}
	if lower := strings.ToLower(strings.TrimRight(host, ".")); (lower == "localhost" || strings.HasSuffix(lower, ".localhost") || strings.HasSuffix(lower, ".internal") || !strings.Contains(lower, ".")) && !allowsHost(b.conf.Get(), u) {
		return privateError(host)
	}
	return nil
}

// publicHosts matches what is not private at first sight: names with a dot whose last
// part is no number, and public addresses. The tool looks closer, and again at what is
// dialled. It is one pattern, since that is what every reader of schemas knows.
const publicHosts = `([A-Za-z0-9_-]+\.)+[A-Za-z][A-Za-z0-9-]*\.?` +
	`|(([1-9]|1[1-9]|[2-9][0-9]|10[1-9]|11[0-9]|12[0-6]|12[89]|1[3-5][0-9]|16[0-8]|17[01]|17[3-9]|18[0-9]|19[01]|19[3-9]|20[0-9]|21[0-9]|22[0-3])\.[0-9]{1,3}` +
	`|100\.([0-9]|[1-5][0-9]|6[0-3]|12[89]|1[3-9][0-9]|2[0-9][0-9])|169\.([0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-35])` +
	`|172\.([0-9]|1[0-5]|3[2-9]|[4-9][0-9]|[12][0-9][0-9])|192\.([0-9]|[1-9][0-9]|1[0-57-9][0-9]|16[0-79]|2[0-9][0-9]))\.[0-9]{1,3}\.[0-9]{1,3}` +
	`|\[[23][0-9A-Fa-f]{3}:[0-9A-Fa-f:.]+\]`

// urlSchema is the schema of an address to register. The host looks at arguments before
// it asks anyone for approval, so what would be refused afterwards is refused by it.
func urlSchema(allowed []string) json.RawMessage {
	s := map[string]string{"type": "string", "description": "Public http or https address of the server. Private, loopback and link-local ones are refused, unless the operator's allow_hosts has them."}
	hosts := []string{"(" + publicHosts + ")(:[0-9]+)?"}
	for _, entry := range allowed {
		a, err := settings.ParseAllowed(entry)
		if err != nil || a.Prefix.IsValid() {
			return quote(s) // what a network has can't be told from the text
		}
		host := regexp.QuoteMeta(a.Host)
		if strings.Contains(a.Host, ":") {
			host = `\[` + host + `\]`
		}
		if a.Port != "" {
			host += ":" + a.Port
		} else {
			host += "(:[0-9]+)?"
		}
		hosts = append(hosts, host)
	}
	s["pattern"] = `^ *[Hh][Tt][Tt][Pp][Ss]?://(` + strings.Join(hosts, "|") + `)([/?#].*)?$`
	return quote(s)
}

func privateError(host string) error {
	return fmt.Errorf("%s is a private address; registered servers are public ones, unless the operator names the host in allow_hosts", host)
}

func allowsHost(c *settings.Settings, u *url.URL) bool {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	for _, entry := range c.AllowHosts {
		a, err := settings.ParseAllowed(entry)
		if err == nil && a.Host != "" && strings.EqualFold(a.Host, u.Hostname()) && (a.Port == "" || a.Port == port) {
			return true
		}
	}
	return false
}

// mayDial is the rule for the addresses a registered server's URL leads to.
func (b *Bridge) mayDial(raw string, inForce func() *settings.Settings) func(netip.AddrPort) error {
	u, err := url.Parse(raw)
	if err != nil {
		return func(netip.AddrPort) error { return err }
	}
	return func(at netip.AddrPort) error {
		addr := at.Addr().Unmap()
		if allowsHost(inForce(), u) || netguard.NotPublic(addr) == "" {
			return nil
		}
		for _, entry := range inForce().AllowHosts {
			a, err := settings.ParseAllowed(entry)
			if err == nil && a.Prefix.IsValid() && a.Prefix.Contains(addr) {
				return nil
			}
		}
		return privateError(u.Hostname() + " (" + addr.String() + ")")
	}
}
