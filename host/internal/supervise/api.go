package supervise

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bulkhead-dev/bulkhead/host/internal/sandbox"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// Plugin is one plugin as the config has it.
type Plugin struct {
	Name   string
	Binary string // absolute
	Folder string // the plugins folder; empty = the binary's own
	// Configured is set when HCL has a block for it. Without one it runs under
	// strict, without network and without grants it asks for, in limits of its own.
	Configured bool
	SHA256     string // pin, hex

	// Config evaluates the plugin's config block against the schema it described:
	// the JSON it is configured with and the paths its attributes name. Nil means
	// an empty config.
	Config func(schema *pluginv1.ConfigBody) (json []byte, paths []sandbox.Path, err error)

	Grants  []string
	Env     map[string]string
	Sandbox SandboxConfig
	Limits  Limits
	Budget  RestartBudget
}

// SandboxConfig is a sandbox block; what is empty is left to the plugin's own
// needs, then to strict without network.
type SandboxConfig struct {
	Profile, Network  string
	Read, Write, Exec []string
}

// Limits bound one plugin. Zero means the default.
type Limits struct {
	Memory      int64 // bytes; 0 = none
	Processes   int   // 0 = none
	Calls       int   // in flight; 32
	Queue       int   // waiting; 128
	CallTimeout time.Duration
}

// RestartBudget is how many unplanned exits within a window quarantine a plugin.
type RestartBudget struct {
	Exits  int           // 5
	Window time.Duration // 10 minutes
}

// Offers is where snapshots go: the registry. Publish must not wait and must not
// call back into the Supervisor.
type Offers interface {
	Publish(plugin string, generation uint64, snap *pluginv1.OfferSnapshot)
	Withdraw(plugin string)
}

// HostServices makes the host service one generation may call.
type HostServices interface {
	For(plugin string, generation uint64) pluginv1.HostServiceServer
	// Serving says that a generation is about to be activated: from now on older
	// ones must not write.
	Serving(plugin string, generation uint64)
	Revoke(plugin string, generation uint64)
}

// DescribeCache keeps descriptions by the binary's SHA-256.
type DescribeCache interface {
	Get(sha string) (*pluginv1.DescribeResponse, bool)
	Put(sha string, d *pluginv1.DescribeResponse) error
}

// Generations numbers starts, so that no number comes twice, not even after the
// host itself was started again.
type Generations interface {
	Next(plugin string) (uint64, error)
}

// Options is what a Supervisor works with. Offers is needed; every time that is
// zero takes its default.
type Options struct {
	DataDir   string // state of plugins: plugins/NAME, tmp
	RunDir    string // sockets; short
	SharedDir string // the real folder behind /shared; empty = none
	// Hide is what no plugin may see but its own folders in it: files of the host.
	Hide []string

	Offers        Offers
	HostServices  HostServices  // nil = none
	DescribeCache DescribeCache // nil = none
	Generations   Generations   // nil = from 1 on
	Log           hclog.Logger
	// OnEvent hears of every change of state. It must not block.
	OnEvent     func(Event)
	HostVersion string

	StartTimeout    time.Duration // handshake and first answer; 10 s
	ConfigTimeout   time.Duration // Validate, Configure, first offers, Activate, each; 30 s
	BackoffBase     time.Duration // 250 ms
	BackoffMax      time.Duration // 30 s
	HealthyReset    time.Duration // 60 s
	QuarantineProbe time.Duration // 5 min
	HealthInterval  time.Duration // 10 s
	HealthTimeout   time.Duration // 2 s
	RestartWait     time.Duration // how long a call waits for a restart; 2 s
	HandoverWait    time.Duration // how long a call waits for a handover; 10 s
	QuiesceTimeout  time.Duration // 10 s
	AbandonAfter    time.Duration // 5 s
	Linger          time.Duration // how long a drained generation may finish its calls; 15 min

	// NoNamespaces runs every plugin as on a machine without namespaces.
	NoNamespaces bool
}

func (o Options) normal() Options {
	def := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	def(&o.StartTimeout, 10*time.Second)
	def(&o.ConfigTimeout, 30*time.Second)
	def(&o.BackoffBase, 250*time.Millisecond)
	def(&o.BackoffMax, 30*time.Second)
	def(&o.HealthyReset, time.Minute)
	def(&o.QuarantineProbe, 5*time.Minute)
	def(&o.HealthInterval, 10*time.Second)
	def(&o.HealthTimeout, 2*time.Second)
	def(&o.RestartWait, 2*time.Second)
	def(&o.HandoverWait, 10*time.Second)
	def(&o.QuiesceTimeout, 10*time.Second)
	def(&o.AbandonAfter, 5*time.Second)
	def(&o.Linger, 15*time.Minute)
	if o.Log == nil {
		o.Log = hclog.NewNullLogger()
	}
	if o.OnEvent == nil {
		o.OnEvent = func(Event) {}
	}
	return o
}

func (p Plugin) normal() Plugin {
	if !p.Configured {
		p.Limits.Calls = foundCalls
	}
	if p.Limits.Calls <= 0 {
		p.Limits.Calls = 32
	}
	p.Limits.Calls = max(p.Limits.Calls, 2) // one for root calls, one for nested ones
	if p.Limits.Queue <= 0 {
		p.Limits.Queue = 128
	}
	if p.Budget.Exits <= 0 {
		p.Budget.Exits = 5
	}
	if p.Budget.Window <= 0 {
		p.Budget.Window = 10 * time.Minute
	}
	return p
}

// State is where a plugin is in its life.
type State string

// The states.
const (
	Starting    State = "starting"
	Ready       State = "ready"
	Degraded    State = "degraded"
	Restarting  State = "restarting"
	Quarantined State = "quarantined"
	Draining    State = "draining"
	Stopped     State = "stopped"
)

// Event is one change of a plugin's state.
type Event struct {
	At         time.Time
	Plugin     string
	State      State
	Generation uint64 // the serving one, or the last
	Detail     string // why
}

// Dispatch says how far a call got.
type Dispatch struct {
	Sent       bool   // the request may have reached the plugin
	Generation uint64 // 0 = none was reached
}

// Status is one plugin as it stands.
type Status struct {
	Name, Binary   string
	Version        string
	Configured     bool
	State          State
	Since          time.Time
	Detail         string // what degraded it
	PID            int    // 0 = no process
	Generation     uint64
	Restarts       int // unplanned
	InFlight       int
	Queued         int
	Abandoned      int
	Sandbox        *sandbox.Report // nil = no process
	LastError      string
	LastRef        string // its BH code
	LastErrorAt    time.Time
	Kept           string // why an older generation or config goes on; empty = it is the newest
	KeptRef        string // its BH code
	KeptSince      time.Time
	Tail           []string
	MissingGrants  []string // needed, not granted
	NextAttempt    time.Time
	StartedAt      time.Time
	SwapPreference pluginv1.Swap
}
