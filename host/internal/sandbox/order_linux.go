package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// How the shim ends up: as the plugin itself, as its init, or as its keeper.
const (
	modeExec   = "exec"
	modeInit   = "init"
	modeKeeper = "keeper"
	modeInner  = "inner" // below a keeper: restricts itself and becomes the plugin
	modeProbe  = "probe"
)

// The shim's own argument, its order and its pipes.
const (
	shimArg  = "__sandbox"
	orderEnv = "BULKHEAD_SANDBOX_ORDER"
	reportFD = 3 // the shim writes one answer, then closes
	lifeFD   = 4 // reads end of file when the host is gone or gives the plugin up
)

// order is what the host tells the shim.
type order struct {
	Mode    string   `json:"mode"`
	Path    string   `json:"path"`
	Args    []string `json:"args"`
	Profile Profile  `json:"profile"`
	NS      spaces   `json:"ns"`
	Group   string   `json:"group,omitempty"`  // cgroup to join
	Rooted  bool     `json:"rooted,omitempty"` // runs in a small root
	Hidden  bool     `json:"hidden,omitempty"` // the host's own files are covered
	hidden  []string
	real    map[string]string // admitted paths without links
	Report  Report            `json:"report"` // of the keeper, for its inner shim
}

// spaces are the namespaces the shim was born into.
type spaces struct {
	User  bool `json:"user,omitempty"`
	PID   bool `json:"pid,omitempty"`
	Mount bool `json:"mount,omitempty"`
	Net   bool `json:"net,omitempty"`
}

// answer is what the shim tells the host before it becomes the plugin.
type answer struct {
	Report Report `json:"report"`
	Err    string `json:"err,omitempty"`
	// Refused marks an error of what the config asked for by name.
	Refused bool `json:"refused,omitempty"`
}

func readOrder() (order, error) {
	var o order
	if err := json.Unmarshal([]byte(os.Getenv(orderEnv)), &o); err != nil {
		return o, fmt.Errorf("the sandbox order is unreadable: %w", err)
	}
	return o, nil
}

// pluginEnv is the shim's environment without the order.
func pluginEnv() []string {
	env := os.Environ()
	out := env[:0]
	for _, kv := range env {
		if !strings.HasPrefix(kv, orderEnv+"=") {
			out = append(out, kv)
		}
	}
	return out
}
