package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrRefused marks what the config asked for by name and can't be had here.
var ErrRefused = errors.New("the sandbox that the config asks for can't be had here")

// maxAnswer bounds what the host reads from a shim.
const maxAnswer = 64 << 10

// Guard is the host's end of one sandbox.
type Guard struct {
	mode               string
	group              string   // cgroup folder; empty = none
	report, life       *os.File // host's ends
	reportKid, lifeKid *os.File // the shim's ends
	once               sync.Once
}

// Wrap turns cmd, which names the plugin's path, arguments and environment, into
// a start of the shim that becomes it. The caller starts cmd from a thread that
// lives as long as the process, then calls Started.
func Wrap(cmd *exec.Cmd, p Profile) (*Guard, error) {
	p, err := p.normal()
	if err != nil {
		return nil, err
	}
	can := machine(p.NoNamespaces)
	o := order{Path: cmd.Path, Args: cmd.Args, Profile: p}
	attr := &syscall.SysProcAttr{Setpgid: true}
	switch {
	case !can.PID:
		o.Mode = modeKeeper // lives on until it has killed the plugin's tree
		// Should a plugin kill its keeper, what it leaves still is below this host,
		// and known as such.
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return nil, fmt.Errorf("look after what keepers leave: %w", err)
		}
	case p.Name == Strict:
		o.Mode = modeExec
	default:
		o.Mode = modeInit
	}
	if o.Mode != modeKeeper {
		attr.Pdeathsig = syscall.SIGKILL
		o.NS = spaces{PID: true, Mount: can.Mount, User: can.User, Net: can.Net && p.Network == NetworkNone}
		if p.Name == None && os.Geteuid() == 0 {
			o.NS.User = false // nothing to wall off; root needs none for a PID namespace
		}
		o.NS.apply(attr)
	}
	o.Group = makeGroup(p)
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	g := &Guard{mode: o.Mode, group: o.Group}
	if g.report, g.reportKid, err = os.Pipe(); err != nil {
		g.Ended()
		return nil, err
	}
	if g.lifeKid, g.life, err = os.Pipe(); err != nil {
		g.Ended()
		return nil, err
	}
	cmd.Path = "/proc/self/exe"
	cmd.Args = []string{"bulkhead-sandbox", shimArg, p.Plugin}
	cmd.Env = append(cmd.Env, orderEnv+"="+string(text))
	cmd.ExtraFiles = []*os.File{g.reportKid, g.lifeKid}
	cmd.SysProcAttr = attr
	return g, nil
}

// Started closes the shim's ends in the host.
func (g *Guard) Started() {
	g.reportKid.Close()
	g.lifeKid.Close()
}

// Report waits for the shim's answer: what is in force, or why it gave up.
func (g *Guard) Report(ctx context.Context) (Report, error) {
	defer g.report.Close()
	if d, ok := ctx.Deadline(); ok {
		g.report.SetReadDeadline(d)
	}
	stop := context.AfterFunc(ctx, func() { g.report.SetReadDeadline(time.Now()) })
	defer stop()
	text, err := io.ReadAll(io.LimitReader(g.report, maxAnswer))
	if err != nil {
		return Report{}, fmt.Errorf("the sandbox shim did not answer: %w", err)
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		return Report{}, errors.New("the sandbox shim ended without an answer")
	}
	switch {
	case a.Err == "":
		return a.Report, nil
	case a.Refused:
		return a.Report, fmt.Errorf("%w: %s", ErrRefused, a.Err)
	}
	return a.Report, errors.New(a.Err)
}

// Keeper reports whether the first process is a keeper, which must be given a
// moment to kill the tree after Release, before it is killed itself.
func (g *Guard) Keeper() bool { return g.mode == modeKeeper }

// Relays reports whether the first process is not the plugin and passes its exit
// on: a signal as 128 and its number.
func (g *Guard) Relays() bool { return g.mode != modeExec }

// Ended frees what is left when the first process has been waited for.
func (g *Guard) Ended() {
	g.Release()
	if g.group != "" {
		removeGroup(g.group)
	}
}

// Release gives the plugin up: an init or keeper kills all it looks after and
// ends. It may be called more than once.
func (g *Guard) Release() {
	g.once.Do(func() {
		for _, f := range []*os.File{g.life, g.report, g.reportKid, g.lifeKid} {
			if f != nil {
				f.Close()
			}
		}
	})
}
