package sdk

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk/wire"
)

// Plugin is all a plugin is. Fill in what applies and give it to Serve; don't
// change the fields afterwards. What changes at run time goes through Offers.
type Plugin struct {
	Name    string // as in bulkhead-plugin-NAME
	Version string

	// Settings are the plugin's config; nil = it has none. See NewConfig.
	Settings Settings

	Tools       []*Tool
	Prompts     []Prompt
	Resources   []Resource
	Templates   []ResourceTemplate
	Guides      []Guide
	Orientation []Orientation
	// Complete answers completions of prompt arguments and template variables.
	Complete func(ctx context.Context, call *Call, target CompletionTarget) (Result, error)

	// Grants the plugin needs for all it can do. Asking implies none.
	Grants  []string
	Sandbox Sandbox
	Swap    Swap

	// Activate starts background work, once, when this process becomes the serving
	// one. It returns soon; ctx lives until the plugin is drained, so goroutines
	// may run on it.
	Activate func(ctx context.Context) error
	// Drain stops background work and releases exclusive state, in 10 s. Calls in
	// flight go on. reason is stop, swap or handover.
	Drain func(ctx context.Context, reason string) error
	// Health tells how the plugin sees itself.
	Health func(ctx context.Context) Health

	once   sync.Once
	offers *Offers
	host   *hostConn
	facts  atomic.Pointer[Facts]
	log    *logSink
}

// Sandbox is what a plugin needs from its sandbox.
type Sandbox struct {
	Profile           string // strict (default), launcher or none
	Network           string // none (default) or all
	Read, Write, Exec []string
}

// Swap is how one generation of a plugin gives way to the next.
type Swap int

const (
	Overlap  Swap = iota // the new one runs beside the old one
	Handover             // the old one releases its state first
)

// Health is a plugin's own view of its state.
type Health struct {
	Degraded bool
	Detail   string
}

// Facts is what the host told this process about its place.
type Facts struct {
	Instance    string   // the plugin block's name
	Generation  uint64   // counts the starts of the instance
	DataDir     string   // the plugin's own folder, exclusive to the serving generation
	SharedDir   string   // real folder behind /shared as far as the plugin may see it
	TempDir     string   // private, emptied by the host
	Granted     []string // of the grants asked for
	HostVersion string
}

// Facts gives what the host said in Configure; zero before it.
func (p *Plugin) Facts() Facts {
	if f := p.facts.Load(); f != nil {
		return *f
	}
	return Facts{}
}

// Offers is the plugin's dynamic offer: what is added to and taken from the
// static one at run time.
func (p *Plugin) Offers() *Offers {
	p.init()
	return p.offers
}

// Host gives the host's services, acting as the plugin itself.
func (p *Plugin) Host() *Host {
	p.init()
	return &Host{conn: p.host}
}

// HostFor gives the host's services for the session behind a durable handle:
// Call.SessionRef, kept, or what Host.DeriveRun gave.
func (p *Plugin) HostFor(handle string) *Host { return p.Host().For(handle) }

// Close drops the connection to the host. Serve's process needs no Close; what
// serves a plugin inside a longer life does.
func (p *Plugin) Close() {
	p.init()
	p.host.close()
}

func (p *Plugin) init() {
	p.once.Do(func() {
		p.log = newLogSink(p.Name)
		p.host = newHostConn()
		p.offers = newOffers(Offer{
			Tools: p.Tools, Prompts: p.Prompts, Resources: p.Resources, Templates: p.Templates,
			Guides: p.Guides, Orientation: p.Orientation,
		})
	})
}

var pluginName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

// Check looks for mistakes in the plugin's definition: names, schemas, texts over
// their limit. Serve refuses a plugin that has any.
func (p *Plugin) Check() error {
	var errs []error
	if !pluginName.MatchString(p.Name) {
		errs = append(errs, fmt.Errorf("plugin name %q does not match %s", p.Name, pluginName))
	}
	if p.Version == "" {
		errs = append(errs, errors.New("the plugin has no version"))
	}
	p.init()
	errs = append(errs, checkOffer(Offer{
		Tools: p.Tools, Prompts: p.Prompts, Resources: p.Resources, Templates: p.Templates,
		Guides: p.Guides, Orientation: p.Orientation,
	}))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("plugin %q: %w", p.Name, err)
	}
	return nil
}

// quiesceTime is how long Drain's hook may take, by the protocol.
const quiesceTime = 10 * time.Second

// sdkVersion finds this module's version in the binary that imports it.
func sdkVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	const module = "github.com/bulkhead-dev/bulkhead"
	for _, dep := range info.Deps {
		if dep.Path == module {
			return dep.Version
		}
	}
	return info.Main.Version
}

var toolName = regexp.MustCompile(wire.ToolName)
