//go:build unix

package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/scripts/run"
	"github.com/bulkhead-dev/bulkhead/sdk/child"
)

const (
	insideSelf = "/run/keeper"
	// endTime is what a keeper has, past the script's own time, to send the files.
	endTime = 5 * time.Second
	inSize  = 64 << 20 // of /in: the script and its input
	// installMemory is what pip gets at least.
	installMemory = 512 << 20
)

// Options of a runner.
type Options struct {
	Shared       string            // real folder that scripts read as /shared; empty = none
	Interpreters map[string]string // path of the interpreter of each language
	Limits       run.Limits        // of every run
	Warm         int               // sandboxes kept ready
	Log          *slog.Logger
}

// Runner runs scripts behind walls on this machine.
type Runner struct {
	o      Options
	ctx    context.Context // of all sandboxes
	cancel context.CancelFunc

	mu    sync.Mutex
	warm  []*sandbox
	busy  sync.WaitGroup // those that fill the pool, and those that run
	ended bool
}

// New makes a runner and tries its walls out; the error says what is missing.
func New(ctx context.Context, o Options) (*Runner, error) {
	r := &Runner{o: o}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	if len(o.Interpreters) == 0 {
		r.cancel()
		return nil, &run.Failure{Runner: r.Name(), Reason: "no interpreter is installed; Debian's package python3 has one"}
	}
	if err := r.test(ctx); err != nil {
		r.Close()
		return nil, err
	}
	r.fill()
	return r, nil
}

// Name is "namespaces".
func (r *Runner) Name() string { return "namespaces" }

// Languages are those with an interpreter.
func (r *Runner) Languages() (all []string) {
	for l := range r.o.Interpreters {
		all = append(all, l)
	}
	slices.Sort(all)
	return all
}

// Close ends the sandboxes that wait, and waits for those that run.
func (r *Runner) Close() {
	r.mu.Lock()
	r.ended = true
	warm := r.warm
	r.warm = nil
	r.mu.Unlock()
	for _, s := range warm {
		s.end()
	}
	r.busy.Wait()
	r.cancel()
}

// Run runs a script in a sandbox that nothing ran in before.
func (r *Runner) Run(ctx context.Context, s run.Spec) (run.Result, error) {
	r.mu.Lock()
	if r.ended {
		r.mu.Unlock()
		return run.Result{}, &run.Failure{Runner: r.Name(), Reason: "it is closed"}
	}
	r.busy.Add(1)
	r.mu.Unlock()
	defer r.busy.Done()
	if r.o.Interpreters[s.Language] == "" {
		return run.Result{}, &run.Failure{Runner: r.Name(), Reason: fmt.Sprintf("there is no interpreter for %s here", s.Language)}
	}
	s.Limits = r.o.Limits
	if s.OutFiles == 0 {
		s.OutFiles = run.MaxFiles
	}
	if s.OutBytes == 0 {
		s.OutBytes = run.MaxBytes
	}
	if s.OutBytes > s.Limits.Disk && s.Wheels != "" {
		s.Limits.Disk, s.Limits.Memory = s.OutBytes, max(s.Limits.Memory, installMemory)
	}
	box := r.take(s)
	if box == nil {
		var err error
		if box, err = r.start(ctx, s); err != nil {
			return run.Result{}, err
		}
	}
	defer r.fill()
	return box.run(ctx, s)
}

// take gives a sandbox that is ready; nil when there is none.
func (r *Runner) take(s run.Spec) *sandbox {
	if s.Language != run.Python || s.Packages != "" || s.Wheels != "" {
		return nil
	}
	for {
		r.mu.Lock()
		if len(r.warm) == 0 {
			r.mu.Unlock()
			return nil
		}
		box := r.warm[0]
		r.warm = r.warm[1:]
		r.mu.Unlock()
		if box.lives() {
			return box
		}
		box.end()
	}
}

// fill starts sandboxes ahead, in the background, up to as many as are kept.
func (r *Runner) fill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || len(r.warm) >= r.o.Warm || r.o.Interpreters[run.Python] == "" {
		return
	}
	r.busy.Go(func() {
		for {
			r.mu.Lock()
			full := r.ended || len(r.warm) >= r.o.Warm
			r.mu.Unlock()
			if full {
				return
			}
			box, err := r.start(r.ctx, run.Spec{Language: run.Python, Limits: r.o.Limits})
			if err != nil {
				if r.ctx.Err() == nil {
					r.o.Log.Warn("no sandbox could be made ready", "error", err)
				}
				return
			}
			r.mu.Lock()
			full = r.ended || len(r.warm) >= r.o.Warm
			if !full {
				r.warm = append(r.warm, box)
			}
			r.mu.Unlock()
			if full {
				box.end()
				return
			}
		}
	})
}

// start makes a sandbox. ctx bounds the start only.
func (r *Runner) start(ctx context.Context, s run.Spec) (*sandbox, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	jobR, jobW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer jobR.Close()
	reportR, reportW, err := os.Pipe()
	if err != nil {
		jobW.Close()
		return nil, err
	}
	defer reportW.Close()
	box := &sandbox{job: jobW, report: reportR}
	spec := r.spec(s, self)
	spec.Stdin, spec.Stdout, spec.Stderr, spec.ExtraFiles = jobR, &box.out, &box.err, []*os.File{reportW}
	begun := make(chan struct{})
	defer close(begun)
	life, stop := context.WithCancel(r.ctx)
	go func() { // whoever waits for the start may leave
		select {
		case <-ctx.Done():
			select {
			case <-begun:
			default:
				stop()
			}
		case <-begun:
		}
	}()
	box.stop = stop
	if box.child, err = child.Start(life, spec); err != nil {
		stop()
		jobW.Close()
		reportR.Close()
		return nil, errors.Join(ctx.Err(), &run.Failure{Runner: r.Name(), Reason: err.Error()})
	}
	return box, nil
}

// spec is a sandbox's walls.
func (r *Runner) spec(s run.Spec, self string) child.Spec {
	l := s.Limits
	var mounts []child.Mount
	for _, m := range child.SystemMounts() {
		switch m.Target {
		case "/tmp", "/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/ssl", "/etc/ca-certificates", "/etc/pki":
		default:
			mounts = append(mounts, m)
		}
	}
	mounts = append(mounts,
		child.Mount{Target: "/tmp", Writable: true, Size: l.Disk},
		child.Mount{Target: "/out", Writable: true, Size: l.Disk},
		child.Mount{Target: "/in", Writable: true, Size: inSize},
		child.Mount{Target: insideSelf, Source: self},
	)
	if r.o.Shared != "" {
		mounts = append(mounts, child.Mount{Target: "/shared", Source: r.o.Shared})
	}
	if s.Packages != "" {
		mounts = append(mounts, child.Mount{Target: "/deps", Source: s.Packages})
	}
	if s.Wheels != "" {
		mounts = append(mounts, child.Mount{Target: "/wheels", Source: s.Wheels})
	}
	return child.Spec{
		Path: insideSelf, Args: []string{keeperName, s.Language, "/", r.o.Interpreters[s.Language]}, Dir: "/",
		Root: &child.Root{Mounts: mounts}, FewCalls: true,
		Limits: child.Limits{Data: l.Memory, Processes: l.Processes + keeperTasks, OpenFiles: 256, FileSize: l.Disk},
	}
}

// keeperTasks is how many threads a keeper has, which count as the script's.
const keeperTasks = 16
