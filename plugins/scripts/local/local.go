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
	// Walls is the one kind to use; empty = the first that holds here.
	Walls string
	// NoWalls runs scripts without any where none can be had.
	NoWalls bool
	Log     *slog.Logger
}

// Runner runs scripts behind walls on this machine.
type Runner struct {
	o      Options
	walls  walls
	ctx    context.Context // of all sandboxes
	cancel context.CancelFunc

	mu    sync.Mutex
	warm  []*sandbox
	busy  sync.WaitGroup // those that fill the pool, and those that run
	ended bool
}

// New makes a runner behind the first walls that hold here, which a trial run shows; the
// error says what is missing.
func New(ctx context.Context, o Options) (*Runner, error) {
	r := &Runner{o: o}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	if len(o.Interpreters) == 0 {
		r.cancel()
		return nil, &run.Failure{Runner: "local", Reason: "no interpreter is installed; Debian's package python3 has one"}
	}
	var reasons []error
	for _, w := range kinds {
		if o.Walls != "" && w.name != o.Walls || w.name == Unwalled && !o.NoWalls {
			continue
		}
		r.walls = w
		err := w.missing()
		if err == nil {
			err = r.test(ctx)
		}
		if err == nil {
			r.fill()
			return r, nil
		}
		var failure *run.Failure
		if !errors.As(err, &failure) {
			err = &run.Failure{Runner: w.name, Reason: err.Error()}
		}
		reasons = append(reasons, err)
	}
	r.Close()
	if len(reasons) == 0 {
		return nil, &run.Failure{Runner: o.Walls, Reason: "nobody allowed it"}
	}
	return nil, errors.Join(reasons...)
}

// Name is that of its walls.
func (r *Runner) Name() string { return r.walls.name }

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
	if s.OutBytes > s.Limits.Disk && s.Installs() {
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
	if r.walls.name == Unwalled || s.Language != run.Python || s.Packages != "" || s.Installs() {
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
	if r.walls.name == Unwalled || r.ended || len(r.warm) >= r.o.Warm || r.o.Interpreters[run.Python] == "" {
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
	box := &sandbox{job: jobW, report: reportR, walls: r.walls}
	spec, err := r.walls.spec(r, s, self, box)
	if err != nil {
		jobW.Close()
		reportR.Close()
		return nil, err
	}
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
		box.sweep()
		return nil, errors.Join(ctx.Err(), &run.Failure{Runner: r.Name(), Reason: err.Error()})
	}
	return box, nil
}
