package container

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/bulkhead-dev/bulkhead/plugins/scripts/alive"
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/inside"
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/run"
)

//go:embed selftest.py
var selftest string

// Options of a runner.
type Options struct {
	Socket   string // path of the engine's socket
	Image    string // has python3
	NanoCPUs int64  // processor time: billionths of a processor
	Limits   run.Limits
	Shared   string      // folder that scripts read as /shared; empty = none
	Dir      string      // folder of this plugin's that the engine can read, too
	Owner    string      // of the containers: a label's value, the same after a restart
	Mark     *alive.Mark // of this process
	Log      *slog.Logger
}

const (
	ownerLabel   = "dev.bulkhead.owner"
	processLabel = "dev.bulkhead.process"
	user         = "65534:65534"

	requestTime = 15 * time.Second // of a question to the engine
	startTime   = time.Minute      // what a container has until it runs
	endTime     = 10 * time.Second // what a keeper has, past the script's time, to send the files
	removeTime  = 30 * time.Second
	lookAgain   = 50 * time.Millisecond
	testTime    = 20 * time.Second

	maxFiles = 1 << 30 // bytes that come back, where more than usual is asked for
	inSize   = 64 << 20
	shmSize  = 8 << 20
	// keeperTasks is how many threads a keeper has, which count as the script's.
	keeperTasks = 8
	closed      = "rw,nosuid,nodev,mode=0555,size=4096" // and root's
	// keeperMemory is what it takes, with the interpreter's own.
	keeperMemory = 32 << 20
)

// Runner runs scripts in containers.
type Runner struct {
	o       Options
	api     *client.Client
	podman  bool
	filter  string // the value of the security option; empty = the engine's own
	mu      sync.Mutex
	busy    sync.WaitGroup
	over    bool
	closing sync.Once
}

// New asks an engine what it can do, removes the containers that dead processes of this
// owner left, and tries the walls out; the error says what is missing.
func New(ctx context.Context, o Options) (*Runner, error) {
	api, err := client.New(client.WithHost("unix://"+o.Socket), client.WithUserAgent("bulkhead-scripts"))
	if err != nil {
		return nil, &run.Failure{Runner: "container", Reason: err.Error()}
	}
	r := &Runner{o: o, api: api}
	if err := r.ready(ctx); err != nil {
		r.Close()
		return nil, &run.Failure{Runner: r.Name(), Reason: err.Error()}
	}
	got, err := r.Run(ctx, run.Spec{Language: run.Python, Script: []byte(selftest), Timeout: testTime, Packages: o.Dir, OutFiles: 1, OutBytes: 1 << 20})
	if err == nil {
		if out := strings.TrimSpace(string(got.Stdout)); out != "ok" {
			err = fmt.Errorf("the trial run did not go as it must (%s, exit %d): %.500s %.500s", got.Cause, got.Exit, out, got.Stderr)
		}
	}
	if err != nil {
		r.Close()
		var known *run.Failure
		if errors.As(err, &known) {
			return nil, err
		}
		return nil, &run.Failure{Runner: r.Name(), Reason: err.Error()}
	}
	return r, nil
}

func (r *Runner) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	version, err := r.api.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return fmt.Errorf("no engine answers at %s: %w", r.o.Socket, err)
	}
	for _, c := range version.Components {
		r.podman = r.podman || strings.HasPrefix(c.Name, "Podman")
	}
	info, err := r.api.Info(ctx, client.InfoOptions{})
	if err != nil {
		return err
	}
	if i := info.Info; !i.MemoryLimit || !i.PidsLimit {
		return errors.New("the engine can't bound memory and processes here (a rootless one needs cgroups of version 2)")
	}
	if _, err := r.api.ImageInspect(ctx, r.o.Image); errdefs.IsNotFound(err) {
		return fmt.Errorf("the engine has no image %s; `%s pull %s` gets it", r.o.Image, r.engine(), r.o.Image)
	} else if err != nil {
		return err
	}
	if err := r.setFilter(); err != nil {
		return err
	}
	return r.sweep(ctx)
}

func (r *Runner) engine() string {
	if r.podman {
		return "podman"
	}
	return "docker"
}

// setFilter makes the filter of system calls known to the engine: Docker takes its text,
// Podman the path of a file.
func (r *Runner) setFilter() error {
	raw, err := profile()
	if err != nil || raw == nil {
		return err
	}
	if !r.podman {
		r.filter = "seccomp=" + string(raw)
		return nil
	}
	name := filepath.Join(r.o.Dir, "seccomp-"+r.o.Mark.Name+".json")
	if err := os.WriteFile(name, raw, 0o644); err != nil {
		return err
	}
	r.filter = "seccomp=" + name
	return nil
}

func (r *Runner) sweep(ctx context.Context) error {
	list, err := r.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", ownerLabel+"="+r.o.Owner)})
	if err != nil {
		return err
	}
	for _, c := range list.Items {
		if !r.o.Mark.Lives(c.Labels[processLabel]) {
			r.remove(ctx, c.ID)
		}
	}
	old, err := filepath.Glob(filepath.Join(r.o.Dir, "seccomp-*.json"))
	if err != nil {
		return err
	}
	for _, name := range old {
		if !r.o.Mark.Lives(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), "seccomp-"), ".json")) {
			_ = os.Remove(name) // another one may have
		}
	}
	return nil
}

// Name is "container".
func (r *Runner) Name() string { return "container" }

// Languages is Python alone: that is what the image has.
func (r *Runner) Languages() []string { return []string{run.Python} }

// Close waits for what runs.
func (r *Runner) Close() {
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
	r.busy.Wait()
	r.closing.Do(func() { _ = r.api.Close() }) // its connections are idle
}

// Run runs a script in a container of its own, which is removed whatever happens.
func (r *Runner) Run(ctx context.Context, s run.Spec) (run.Result, error) {
	r.mu.Lock()
	if r.over {
		r.mu.Unlock()
		return run.Result{}, &run.Failure{Runner: r.Name(), Reason: "it is closed"}
	}
	r.busy.Add(1)
	r.mu.Unlock()
	defer r.busy.Done()
	if s.Language != run.Python {
		return run.Result{}, &run.Failure{Runner: r.Name(), Reason: "only Python is run in a container"}
	}
	begin := time.Now()
	whole, cancel := context.WithTimeout(ctx, startTime+s.Timeout+endTime)
	defer cancel()
	id, err := r.create(whole, s)
	if id != "" {
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
			defer cancel()
			r.remove(ctx, id)
		}()
	}
	var got run.Result
	if err == nil {
		got, err = r.attend(whole, id, s)
	}
	switch {
	case ctx.Err() != nil:
		return run.Result{}, context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		return run.Result{}, &run.Failure{Runner: r.Name(), Reason: "the engine did not begin it in time"}
	case err != nil:
		return run.Result{}, &run.Failure{Runner: r.Name(), Reason: err.Error()}
	}
	if got.Wall == 0 {
		got.Wall = time.Since(begin)
	}
	return got, nil
}

func (r *Runner) order(s run.Spec) inside.Order {
	return inside.For(s, r.o.Limits, cmp.Or(min(s.OutBytes, maxFiles), run.MaxBytes))
}

// create makes a container, which does not run yet.
func (r *Runner) create(ctx context.Context, s run.Spec) (id string, err error) {
	l := r.o.Limits
	if s.Installs() && s.OutBytes > l.Disk {
		l.Disk, l.Memory = s.OutBytes, max(l.Memory, s.OutBytes) // an installation's, which is in memory until it was sent
	}
	tmpfs := func(size int64) string {
		options := fmt.Sprintf("rw,nosuid,nodev,mode=1777,size=%d", size)
		if !r.podman {
			options += ",nr_inodes=4096"
			// Podman does not take it: there memory bounds the number of files.
		}
		return options
	}
	limit := func(name string, n int64) *container.Ulimit {
		return &container.Ulimit{Name: name, Soft: n, Hard: n}
	}
	pids := l.Processes + keeperTasks
	security := []string{"no-new-privileges"}
	if r.filter != "" {
		security = append(security, r.filter)
	}
	var mounts []mount.Mount
	for inside, outside := range map[string]string{"/shared": r.o.Shared, "/deps": s.Packages, "/wheels": s.Wheels, "/run/index.sock": s.Index} {
		if outside != "" {
			mounts = append(mounts, mount.Mount{Type: mount.TypeBind, Source: outside, Target: inside, ReadOnly: true})
		}
	}
	writable := map[string]string{"/tmp": tmpfs(l.Disk), "/out": tmpfs(l.Disk), "/in": tmpfs(inSize)}
	if r.podman { // it makes these two writable by itself, without a bound
		writable["/run"], writable["/var/tmp"] = closed, closed
	}
	made, err := r.api.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config: &container.Config{
			Image: r.o.Image, Entrypoint: inside.Command()[:1], Cmd: inside.Command()[1:], User: user, WorkingDir: "/out", Hostname: "script",
			AttachStdin: true, AttachStdout: true, AttachStderr: true, OpenStdin: true, StdinOnce: true, NetworkDisabled: true,
			Env:    []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"},
			Labels: map[string]string{ownerLabel: r.o.Owner, processLabel: r.o.Mark.Name},
		},
		HostConfig: &container.HostConfig{
			AutoRemove: true, NetworkMode: "none", IpcMode: "private", CgroupnsMode: "private", ReadonlyRootfs: true, CapDrop: []string{"ALL"}, SecurityOpt: security,
			LogConfig: container.LogConfig{Type: "none"}, ShmSize: shmSize, Mounts: mounts,
			Tmpfs: writable,
			Resources: container.Resources{Memory: l.Memory + keeperMemory, MemorySwap: l.Memory + keeperMemory, NanoCPUs: r.o.NanoCPUs, PidsLimit: &pids,
				Ulimits: []*container.Ulimit{limit("nofile", 256), limit("core", 0), limit("fsize", l.Disk), limit("data", l.Memory), limit("nproc", 4096)}},
		},
	})
	return made.ID, err
}

// attend starts a container and hears how its script does.
func (r *Runner) attend(ctx context.Context, id string, s run.Spec) (run.Result, error) {
	line, err := r.api.ContainerAttach(ctx, id, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return run.Result{}, err
	}
	defer line.Close()
	defer context.AfterFunc(ctx, line.Close)()
	exit := r.api.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	if _, err := r.api.ContainerStart(ctx, id, client.ContainerStartOptions{}); err != nil {
		return run.Result{}, err
	}
	order := r.order(s)
	head, err := json.Marshal(order)
	if err != nil {
		return run.Result{}, err
	}
	go func() { // ends with the line
		for _, part := range [][]byte{append(head, '\n'), s.Script, s.Input} {
			if _, err := line.Conn.Write(part); err != nil {
				return // what is heard says how it ended
			}
		}
	}()
	// A keeper says nothing beside its lines but when it can't begin.
	words := &tail{}
	out, in := io.Pipe()
	go func() {
		_, err := stdcopy.StdCopy(in, words, line.Reader)
		in.CloseWithError(cmp.Or(err, io.EOF))
	}()
	e := &inside.Ear{Said: s.Said, Order: order}
	e.Begin()
	err = e.Hear(out)
	_ = out.Close() // the copying above ends with it
	got, complete := e.Result()
	switch {
	case complete:
		return got, nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && e.Begun():
		got.Cause = run.Timeout // nothing more is heard of it
		return got, nil
	case ctx.Err() != nil:
		return got, ctx.Err()
	case errors.Is(err, inside.ErrBroken):
		return got, fmt.Errorf("the container ended before the script was begun: %s", cmp.Or(words.text(), "nothing was said"))
	}
	got.Cause = run.Lost
	select {
	case status := <-exit.Result:
		if status.StatusCode == killed {
			got.Cause, got.PeakMemory = run.Memory, r.o.Limits.Memory
		}
	case <-exit.Error:
	case <-ctx.Done():
	}
	return got, nil
}

// killed is the status of a container whose first process got a KILL. Nothing inside can
// send it one: that is the kernel, for want of memory.
const killed = 128 + 9

// remove removes a container, and ends what runs in it, trying again while it is on its
// way out. What is left the next start removes.
func (r *Runner) remove(ctx context.Context, id string) {
	for {
		_, err := r.api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		if err == nil || errdefs.IsNotFound(err) {
			return
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			r.o.Log.Warn("a container could not be removed", "container", id, "error", err)
			return
		}
	}
}

// tail keeps the last of what is written.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailMost = 2000

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p[max(0, len(p)-tailMost):]...)
	t.buf = t.buf[max(0, len(t.buf)-tailMost):]
	return len(p), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(t.buf), "\uFFFD"))
}
