package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/sandbox"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
	"github.com/bulkhead-dev/bulkhead/sdk/wire"
)

// DefaultStartTimeout covers a whole start: handshake and first answer.
const DefaultStartTimeout = 10 * time.Second

// maxSocketPath is what fits a unix socket's address, its closing zero off;
// socketTail is what go-plugin appends to the run dir.
const (
	maxSocketPath = 107
	socketTail    = len("/plugin-dir0123456789/plugin0123456789")
)

// Spec is one start of one plugin.
type Spec struct {
	Instance   string // name in the config, for messages and logs
	Generation uint64
	Binary     string   // absolute
	Folder     string   // the plugins folder a symlink may not lead out of; empty = the binary's own
	SHA256     string   // hex; when set, exactly these bytes are run
	Args       []string // beside the program's name

	RunDir    string // short, made 0700, removed at the end
	DataDir   string // made when absent; also HOME
	SharedDir string // what the plugin may see of /shared; empty = nothing
	TempDir   string // made when absent

	Env          map[string]string // beside the floor
	Sandbox      sandbox.Profile   // own folders and the binary are added
	StartTimeout time.Duration
	HostService  pluginv1.HostServiceServer // nil = none is served
	Log          hclog.Logger
	HostVersion  string
}

// normal fills what is left out and refuses what can't work.
func (s Spec) normal() (Spec, error) {
	if s.StartTimeout <= 0 {
		s.StartTimeout = DefaultStartTimeout
	}
	if s.Log == nil {
		s.Log = hclog.NewNullLogger()
	}
	for _, dir := range []string{s.Binary, s.RunDir, s.DataDir, s.TempDir} {
		if !filepath.IsAbs(dir) {
			return s, fault.New(fault.PluginStart, "plugin %q: %q is not an absolute path", s.Instance, dir)
		}
	}
	if n := len(s.RunDir) + socketTail; n > maxSocketPath {
		return s, fault.New(fault.PluginStart, "plugin %q: its sockets under %s would need %d bytes of path and %d are possible; use a shorter data_dir", s.Instance, s.RunDir, n, maxSocketPath)
	}
	return s, nil
}

// prepare makes the folders and returns the path to run: the binary, or a
// private copy of exactly the pinned bytes.
func (s *Spec) prepare() (string, error) {
	if err := CheckBinary(s.Binary, s.Folder); err != nil {
		return "", fault.New(fault.PluginBinary, "plugin %q: %w", s.Instance, err)
	}
	if err := os.RemoveAll(s.RunDir); err != nil {
		return "", fault.New(fault.PluginStart, "plugin %q: %w", s.Instance, err)
	}
	for _, dir := range []string{s.RunDir, s.DataDir, s.TempDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", fault.New(fault.PluginStart, "plugin %q: %w", s.Instance, err)
		}
	}
	path := s.Binary
	if s.SHA256 != "" {
		path = filepath.Join(s.RunDir, filepath.Base(s.Binary))
		if err := copyPinned(s.Binary, path, s.SHA256); err != nil {
			return "", fault.New(fault.PluginBinary, "plugin %q: %w", s.Instance, err)
		}
	}
	paths := []sandbox.Path{
		{Path: path, Access: sandbox.Exec},
		{Path: s.RunDir, Access: sandbox.Write},
		{Path: s.DataDir, Access: sandbox.Write},
		{Path: s.TempDir, Access: sandbox.Write},
	}
	if s.SharedDir != "" {
		paths = append(paths, sandbox.Path{Path: s.SharedDir, Access: sandbox.Write})
	}
	s.Sandbox.Plugin = s.Instance
	s.Sandbox.Paths = slices.Concat(paths, s.Sandbox.Paths)
	return path, nil
}

// environ is all a plugin sees of an environment: the floor, then the config's.
func (s *Spec) environ() []string {
	env := map[string]string{
		"PATH":   "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME":   s.DataDir,
		"TMPDIR": s.TempDir,
		"LANG":   "C.UTF-8",
	}
	if m := s.Sandbox.Memory; m > 0 { // a program in Go collects harder before it runs against the limit
		env["GOMEMLIMIT"] = strconv.FormatInt(m/10*8, 10)
	}
	if s.SharedDir != "" {
		env[wire.EnvShared] = s.SharedDir
		env[wire.EnvSharedLegacy] = s.SharedDir
	}
	for k, v := range s.Env {
		env[k] = v
	}
	list := make([]string, 0, len(env))
	for k, v := range env {
		list = append(list, k+"="+v)
	}
	slices.Sort(list)
	return list
}

// StartError is a start that failed, with the plugin's last words.
type StartError struct {
	Fault *fault.Error
	Tail  []string
}

func (e *StartError) Error() string { return e.Fault.Error() }
func (e *StartError) Unwrap() error { return e.Fault }

func isPanic(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
}

// failed makes the error of a failed start; the message ends with the last lines.
func (s *Spec) failed(ref fault.Ref, tail []string, format string, args ...any) *StartError {
	text := fmt.Sprintf("plugin %q (%s): ", s.Instance, s.Binary) + fmt.Sprintf(format, args...)
	if n := len(tail); n > 0 {
		text += "; last lines on stderr:"
		shown := tail[max(0, n-5):]
		if isPanic(tail[0]) {
			shown = tail[:min(n, 8)] // a trace says most at its start
		}
		for _, line := range shown {
			text += "\n  " + line
		}
	}
	return &StartError{Fault: fault.New(ref, "%s", text), Tail: tail}
}
