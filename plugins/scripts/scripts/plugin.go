package scripts

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"

	"github.com/bulkhead-dev/bulkhead/plugins/scripts/alive"
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/container"
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/kube"
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/local"
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/run"
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/wheels"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// Version of the plugin.
const Version = "0.1.0"

//go:embed guide.md
var guide string

// testTime is what the trial of a runner may take.
const testTime = 30 * time.Second

// scripts is the plugin at work.
type scripts struct {
	plugin *sdk.Plugin
	conf   *sdk.Config[settings]
	walls  string

	mu     sync.Mutex
	mark   *alive.Mark // of this process, in the folder of its data
	runner run.Runner
	slots  chan struct{} // one for each script that may run
	wheels *wheels.Store // nil = packages can't be installed
	fault  string        // why there is no runner
}

// Plugin builds the plugin.
func Plugin() *sdk.Plugin { return build("").plugin }

// build makes the plugin with one kind of walls; empty = the first that holds.
func build(walls string) *scripts {
	s := &scripts{walls: walls, conf: sdk.NewConfig(defaults())}
	s.conf.Validate = validate
	s.conf.Reconfigure = func(ctx context.Context, _, now *settings) (bool, error) { return true, s.apply(ctx, now) }
	s.plugin = &sdk.Plugin{
		Name: "scripts", Version: Version,
		Settings: s.conf,
		Grants:   []string{"shared"},
		Sandbox:  sdk.Sandbox{Profile: "launcher", Network: "none"},
		Activate: func(ctx context.Context) error { return s.apply(ctx, s.conf.Get()) },
		Drain:    func(context.Context, string) error { s.close(); return nil },
		Health:   s.health,
	}
	return s
}

// apply makes the runner of the settings, and offers the tool if there is one. What
// runs on the old one goes on there.
func (s *scripts) apply(ctx context.Context, now *settings) error {
	ctx, cancel := context.WithTimeout(ctx, testTime)
	defer cancel()
	fresh, err := s.open(ctx, now)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.mu.Lock()
	old := s.runner
	s.runner, s.slots, s.wheels, s.fault = fresh, make(chan struct{}, now.Runs), nil, ""
	switch {
	case err != nil:
		s.runner, s.fault = nil, err.Error()
	case now.installs() && fresh.Name() != "kubernetes" && slices.Contains(now.Languages, run.Python):
		s.wheels = &wheels.Store{Dir: filepath.Join(s.plugin.Facts().DataDir, "packages"), House: now.Wheels, For: python(now, fresh), Runner: fresh}
		if now.Index != "" {
			s.wheels.Index, err = wheels.ParseIndex(now.Index, now.Hosts)
		}
	}
	s.mu.Unlock()
	if old != nil {
		go old.Close() // once its runs have ended
	}
	if err != nil {
		// Without walls nothing is run, and a tool that can't run is not offered.
		s.plugin.Logger().Warn("scripts can't be run here", "reason", err)
		s.plugin.Offers().Remove("scripts")
		return nil
	}
	return s.plugin.Offers().Set("scripts", sdk.Offer{Tools: []*sdk.Tool{s.tool(fresh.Languages(), now.installs())},
		Guides: []sdk.Guide{{Name: "scripts", Summary: "Running scripts: what they can reach, files, limits.", Markdown: guide}}})
}

func (s *scripts) open(ctx context.Context, now *settings) (run.Runner, error) {
	limits := run.Limits{Memory: int64(now.Memory), Processes: int64(now.Processes), Disk: int64(now.Disk), Output: int(now.Output)}
	if now.Runner == "container" {
		return s.engine(ctx, now, limits)
	}
	if now.Runner != "local" {
		conf, err := kube.Config(now.Kubeconf)
		switch {
		case err == nil && (now.Runner == "kubernetes" || now.Kubeconf == ""):
			return s.cluster(ctx, now, conf, limits)
		case now.Runner == "kubernetes":
			return nil, &run.Failure{Runner: "kubernetes", Reason: fmt.Sprintf("there is no cluster to run in: %v; name a kubeconfig", err)}
		}
	}
	found := map[string]string{}
	for _, l := range now.Languages {
		if i := slices.IndexFunc(programs[l], installed); i >= 0 {
			found[l] = programs[l][i]
		}
	}
	r, err := local.New(ctx, local.Options{Shared: s.shared(), Interpreters: found, Warm: now.Warm, Log: s.plugin.Logger(), Limits: limits, Walls: s.walls, NoWalls: now.NoWalls})
	switch {
	case err == nil && r.Name() != local.Unwalled:
		return r, nil
	case now.Runner == "auto" && now.Socket != "":
		boxed, second := s.engine(ctx, now, limits)
		if second == nil {
			if r != nil {
				r.Close()
			}
			return boxed, nil
		}
		err = errors.Join(err, second)
	}
	if r != nil {
		s.plugin.Logger().Warn("scripts run without a sandbox", "allowed_by", "allow_unsandboxed")
		return r, nil
	}
	return nil, err
}

// shared is the folder that scripts read; empty = none.
func (s *scripts) shared() string {
	facts := s.plugin.Facts()
	if !slices.Contains(facts.Granted, "shared") {
		return ""
	}
	return facts.SharedDir
}

// closed is the shared folder if it is to be read by scripts and can't be.
func (s *scripts) closed() string {
	dir := s.shared()
	if dir == "" || s.runner.Name() == "kubernetes" || s.runner.Name() != "container" && os.Geteuid() != 0 {
		return ""
	}
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o005 == 0o005 {
		return ""
	}
	return dir
}

// owner names what this instance in this host's folder makes elsewhere, so that what a
// killed process of it left is found again.
func (s *scripts) owner() (name string, mark *alive.Mark, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	facts := s.plugin.Facts()
	if s.mark == nil {
		if s.mark, err = alive.Here(filepath.Join(facts.DataDir, "alive")); err != nil {
			return "", nil, err
		}
	}
	sum := sha256.Sum256([]byte(facts.DataDir + "\x00" + facts.Instance))
	return hex.EncodeToString(sum[:8]), s.mark, nil
}

// python says whose packages those of a runner are.
func python(now *settings, r run.Runner) string {
	if r.Name() == "container" {
		return now.Image
	}
	path := programs[run.Python][0]
	info, err := os.Stat(path)
	if err != nil {
		return path // the runner says it better
	}
	return fmt.Sprint(path, info.Size(), info.ModTime().UnixNano())
}

// engine makes a runner of containers.
func (s *scripts) engine(ctx context.Context, now *settings, limits run.Limits) (run.Runner, error) {
	cpu, err := resource.ParseQuantity(now.CPU)
	if err != nil {
		return nil, err
	}
	owner, mark, err := s.owner()
	if err != nil {
		return nil, err
	}
	r, err := container.New(ctx, container.Options{Socket: now.Socket, Image: now.Image, NanoCPUs: cpu.MilliValue() * 1e6, Limits: limits, Shared: s.shared(), Dir: s.plugin.Facts().DataDir,
		Owner: owner, Mark: mark, Log: s.plugin.Logger()})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// cluster makes a runner of pods.
func (s *scripts) cluster(ctx context.Context, now *settings, conf *rest.Config, limits run.Limits) (run.Runner, error) {
	cpu, err := resource.ParseQuantity(now.CPU)
	if err != nil {
		return nil, err
	}
	owner, mark, err := s.owner()
	if err != nil {
		return nil, err
	}
	r, err := kube.New(ctx, kube.Options{Config: conf, Namespace: now.Namespace, Image: now.Image, CPU: cpu, Limits: limits, Owner: owner, Mark: mark, Log: s.plugin.Logger()})
	if err != nil {
		return nil, err
	}
	return r, nil
}

func installed(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func (s *scripts) close() {
	s.mu.Lock()
	old, mark := s.runner, s.mark
	s.runner, s.mark, s.fault = nil, nil, "the plugin is stopping"
	s.mu.Unlock()
	if old != nil {
		old.Close()
	}
	if mark != nil {
		mark.Close()
	}
}

func (s *scripts) health(context.Context) sdk.Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.fault != "":
		return sdk.Health{Degraded: true, Detail: "scripts can't be run here: " + s.fault}
	case s.runner == nil:
		return sdk.Health{}
	}
	detail := "runner " + s.runner.Name() + " for " + strings.Join(s.runner.Languages(), ", ")
	if s.runner.Name() == local.Unwalled {
		return sdk.Health{Degraded: true, Detail: detail + ": a script can do what this plugin can (allow_unsandboxed)"}
	}
	if closed := s.closed(); closed != "" {
		return sdk.Health{Degraded: true, Detail: detail + "; scripts can't read /shared, since they run as another user: chmod o+rx " + closed}
	}
	return sdk.Health{Detail: detail}
}
