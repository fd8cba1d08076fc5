//go:build !linux

package sandbox

import (
	"context"
	"errors"
	"os/exec"
)

// ErrRefused marks what the config asked for by name and can't be had here.
var ErrRefused = errors.New("the sandbox that the config asks for can't be had here")

// Guard is the host's end of one sandbox.
type Guard struct{ report Report }

// MaybeRun does nothing: this system has no shim.
func MaybeRun() {}

// Wrap leaves cmd as it is; the report says so.
func Wrap(_ *exec.Cmd, p Profile) (*Guard, error) {
	p, err := p.normal()
	if err != nil {
		return nil, err
	}
	if p.MustProfile && p.Name != None || p.MustNetwork && p.Network == NetworkNone {
		return nil, ErrRefused
	}
	g := &Guard{Report{Profile: p.Name, Network: p.Network}}
	if p.Name != None {
		g.report.lacks("any sandbox (this system has none we use)")
	}
	return g, nil
}

// Started does nothing.
func (g *Guard) Started() {}

// Report says that nothing is in force.
func (g *Guard) Report(context.Context) (Report, error) { return g.report, nil }

// Keeper is always false.
func (g *Guard) Keeper() bool { return false }

// Relays is always false.
func (g *Guard) Relays() bool { return false }

// Ended does nothing.
func (g *Guard) Ended() {}

// Release does nothing.
func (g *Guard) Release() {}
