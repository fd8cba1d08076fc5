package downstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk/child"
)

const (
	// stopGrace is what a program has between the end of its stdin, SIGTERM and
	// SIGKILL, each.
	stopGrace = 1500 * time.Millisecond
	// writeTime is how long a program may leave its stdin unread.
	writeTime = 20 * time.Second
)

// program is a running stdio server.
type program struct {
	child  *child.Child   // nil in a worker, which has the pipes only
	stdin  *os.File       // nil in the bridge when a worker has the pipes
	stdout *io.PipeReader // likewise
	msgs   *messages
	flow   *flow
	stderr *tail
	ended  chan struct{}
	stop   sync.Once
	writes sync.Mutex // one line at a time
}

func newProgram(t *Target) *program {
	f := newFlow()
	return &program{flow: f, msgs: &messages{log: t.Log, hide: t.hide, flow: f}, stderr: newTail(t), ended: make(chan struct{})}
}

func newTail(t *Target) *tail { return &tail{log: t.Log, hide: t.hide, limit: newLogLimit()} }

// pipes are the bridge's ends of a program's stdin and stdout.
type pipes struct{ stdin, stdout *os.File }

// startProgram runs the target's command behind its walls, or takes over the
// pipes of one that runs. Nothing is read before talk.
func startProgram(ctx context.Context, t *Target) (*program, *pipes, error) {
	if t.pipes != nil {
		return newProgram(t), t.pipes, nil
	}
	return launchProgram(ctx, t)
}

// launchProgram runs the target's command and leaves its pipes to the caller.
func launchProgram(ctx context.Context, t *Target) (*program, *pipes, error) {
	spec, err := spec(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		inR.Close()
		inW.Close()
		return nil, nil, err
	}
	p := newProgram(t)
	spec.Stdin, spec.Stdout, spec.Stderr = inR, outW, p.stderr
	p.child, err = child.Start(context.WithoutCancel(ctx), spec)
	inR.Close()
	outW.Close()
	if err != nil {
		inW.Close()
		outR.Close()
		return nil, nil, fmt.Errorf("%s: %w", t.Command[0], err)
	}
	if t.Isolated {
		go func() {
			<-p.child.Done()
			close(p.ended)
		}()
	}
	return p, &pipes{inW, outR}, nil
}

// attach takes the pipes over; what is read of the one comes out of p.stdout once
// talk reads it.
func (p *program) attach(ends *pipes) (talk func()) {
	r, w := io.Pipe()
	p.stdin, p.stdout = ends.stdin, r
	return func() { go p.talk(w, ends) }
}

// talk reads the program's messages; ended is closed when it has no more to say
// and has ended, or does not end soon.
func (p *program) talk(w *io.PipeWriter, ends *pipes) {
	if err := p.msgs.copy(w, ends.stdout); err != io.EOF {
		p.msgs.log.Debug("no more is read of the server", "reason", err)
	}
	w.Close() // the end, whatever it was: the connection knows why
	ends.stdout.Close()
	if p.child != nil {
		// One that lives on without a stdout is of no use: the connection ends it.
		select {
		case <-p.child.Done():
		case <-time.After(endTime):
		}
	}
	close(p.ended)
}

// Write sends to the program's stdin; one that doesn't read loses its connection.
func (p *program) Write(b []byte) (int, error) {
	p.writes.Lock()
	defer p.writes.Unlock()
	_ = p.stdin.SetWriteDeadline(time.Now().Add(writeTime)) // pipes take deadlines
	n, err := p.stdin.Write(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		go p.end() // half a message was written: nothing sensible can follow
		err = fmt.Errorf("the server left its stdin unread for %s: %w", writeTime, err)
	}
	return n, err
}

// Close lets the program go: the end of its stdin, then signals.
func (p *program) Close() error { p.end(); return nil }

func (p *program) end() {
	p.stop.Do(func() {
		if p.stdin != nil {
			p.stdin.Close()
		}
		ended := (<-chan struct{})(p.ended)
		if p.child != nil {
			ended = p.child.Done()
		}
		select {
		case <-ended:
		case <-time.After(stopGrace):
		}
		if p.child != nil {
			p.child.Stop()
		}
		if p.stdout != nil {
			p.stdout.Close()
		}
	})
	if p.child != nil {
		<-p.child.Done()
	}
}

const stdoutClosed = "the server closed its stdout"

// why says how the program ended, with its last words.
func (p *program) why() string {
	if p.child == nil {
		return stdoutClosed
	}
	select {
	case <-p.child.Done():
	case <-time.After(time.Second):
		return stdoutClosed
	}
	st, _ := p.child.Wait()
	text := fmt.Sprintf("the server ended with exit code %d", st.Code)
	if st.Signal != 0 {
		text = fmt.Sprintf("the server was ended by signal %d", st.Signal)
	}
	if last := p.stderr.last(3); last != "" {
		text += "; its last words: " + last
	}
	return text
}

// spec is how the target's program is run.
func spec(ctx context.Context, t *Target) (child.Spec, error) {
	env := map[string]string{"PATH": os.Getenv("PATH"), "HOME": t.Walls.Home, "LANG": "C.UTF-8", "TMPDIR": os.TempDir()}
	if probe(ctx).Namespaces && t.Walls.Profile != "none" {
		env["TMPDIR"] = "/tmp" // the program's own
	}
	for k, v := range t.Env {
		env[k] = v
	}
	path, err := lookPath(t.Command[0], env["PATH"], t.Dir)
	if err != nil {
		return child.Spec{}, err
	}
	s := child.Spec{
		Path: path, Args: t.Command, Dir: t.Dir, KeepNetwork: !t.Walls.NoNetwork, KeepUser: true, Grace: stopGrace,
		Limits: child.Limits{Data: t.Walls.DataMemory},
	}
	for k, v := range env {
		s.Env = append(s.Env, k+"="+v)
	}
	if t.Walls.Home != "" {
		if err := os.MkdirAll(t.Walls.Home, 0o700); err != nil {
			return child.Spec{}, err
		}
		if s.Dir == "" {
			s.Dir = t.Walls.Home
		}
	}
	support := probe(ctx)
	switch {
	case !support.Namespaces:
		if t.Walls.NoNetwork {
			return child.Spec{}, fmt.Errorf("sandbox { network = \"none\" } can't be had here: %s", support.Reason)
		}
		t.Log.Warn("no walls for a stdio server on this machine", "reason", support.Reason)
		s.NoNamespaces, s.KeepNetwork = true, true
		if runtime.GOOS != "linux" {
			if s.Limits != (child.Limits{}) {
				return child.Spec{}, errors.New("sandbox { memory } can't be had on this machine")
			}
			if root := os.Getenv("SYSTEMROOT"); root != "" {
				s.Env = append(s.Env, "SYSTEMROOT="+root) // nothing runs on Windows without it
			}
		}
	case t.Walls.Profile == "none":
	default:
		s.Root = &child.Root{Mounts: t.mounts(path)}
	}
	return s, nil
}
