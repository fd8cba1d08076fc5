//go:build !linux

package child

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// Init does nothing where there are no walls to build.
func Init() {}

// Probe says that there are no walls here.
func Probe(context.Context) Support {
	return Support{Reason: "children are walled off on Linux only"}
}

// User is the plugin's own user.
func User(Spec) int { return os.Geteuid() }

// Child is a running child.
type Child struct {
	cmd    *exec.Cmd
	ctx    context.Context
	done   chan struct{}
	status Status
}

// FewCalls can't be had here.
func FewCalls() error { return ErrUnsupported }

// Start runs a program whose Spec asks for no walls; every other is refused.
func Start(ctx context.Context, spec Spec) (*Child, error) { return StartAs(ctx, spec, 0) }

// StartAs is Start; there are no user ids to give.
func StartAs(ctx context.Context, spec Spec, _ int) (*Child, error) {
	if !spec.NoNamespaces || !spec.KeepNetwork || spec.Root != nil || spec.Files != nil || spec.Limits != (Limits{}) || spec.FewCalls {
		return nil, fmt.Errorf("child %s: walls: %w", spec.Path, ErrUnsupported)
	}
	if len(spec.Args) == 0 {
		spec.Args = []string{spec.Path}
	}
	cmd := exec.CommandContext(ctx, spec.Args[0], spec.Args[1:]...)
	if spec.Path != "" {
		cmd.Path = spec.Path
	}
	cmd.Env, cmd.Dir, cmd.ExtraFiles = append([]string{}, spec.Env...), spec.Dir, spec.ExtraFiles
	cmd.Stdin, cmd.Stdout, cmd.Stderr = spec.Stdin, spec.Stdout, spec.Stderr
	cmd.WaitDelay = spec.Grace
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("child %s: %w", spec.Path, err)
	}
	c := &Child{cmd: cmd, ctx: ctx, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // the state says how it ended
		c.status = Status{Code: cmd.ProcessState.ExitCode(), Killed: ctx.Err() != nil}
		close(c.done)
	}()
	return c, nil
}

// Wait gives how the child ended.
func (c *Child) Wait() (Status, error) { <-c.done; return c.status, nil }

// Done is closed when the child has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// PID is the child's process id.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Signal sends a signal to the child.
func (c *Child) Signal(s syscall.Signal) error { return c.cmd.Process.Signal(s) }

// Stop kills the child.
func (c *Child) Stop() Status {
	_ = c.cmd.Process.Kill() // it may be gone already
	<-c.done
	return c.status
}
