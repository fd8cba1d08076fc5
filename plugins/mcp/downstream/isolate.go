package downstream

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk/child"
)

// workerMemory is the most bytes of data a worker may hold: a server that floods
// ends its worker, and nothing else.
const workerMemory = 1 << 30

// isolated is the bridge's side of a worker.
type isolated struct {
	name   string
	child  *child.Child
	in     *os.File
	frames *os.File
	out    *frameWriter
	stderr *tail
	log    *slog.Logger
	first  chan frame    // ready or failed
	ended  chan struct{} // no more frames will come

	mu    sync.Mutex
	ids   uint64
	calls map[uint64]*workerCall
	noise Noise
	asks  int // questions that are being answered
	over  bool
}

type workerCall struct {
	ctx      context.Context // of whoever waits for it
	answer   chan frame
	progress Progress
}

// connectIsolated connects by way of a process of this very binary that does all
// the talking with the one server: the network, the parsing, the buffers. Of a
// program, the bridge keeps the process and gives the worker its pipes.
func connectIsolated(ctx context.Context, t *Target, events Events) (*Conn, error) {
	c, err := viaWorker(ctx, t, events)
	if errors.Is(err, errOnceMore) && ctx.Err() == nil {
		again := *t
		again.Known = Known{Stdio, Legacy}
		c, err = viaWorker(ctx, &again, events)
	}
	return c, err
}

func viaWorker(ctx context.Context, t *Target, events Events) (*Conn, error) {
	var prog *program
	var files []*os.File
	if len(t.Command) > 0 {
		p, ends, err := launchProgram(ctx, t)
		if err != nil {
			return nil, err
		}
		prog, files = p, []*os.File{ends.stdin, ends.stdout}
	}
	w, err := startWorker(ctx, t, files)
	for _, f := range files {
		f.Close() // the worker has them
	}
	if err != nil {
		if prog != nil {
			prog.end()
		}
		return nil, err
	}
	c := newConn(t, nil, prog, nil, events, newFlow())
	c.remote = w
	go w.own(c)
	if err := w.greet(ctx, t, c); err != nil {
		var sent *sentError
		if prog != nil && errors.As(err, &sent) && ctx.Err() == nil && prog.over(endTime) {
			err = errors.New(prog.why())
		}
		c.Close()
		return nil, err
	}
	return c, nil
}

// endTime is how long the bridge waits to hear from the one of worker and program
// that did not end first.
const endTime = 2 * time.Second

// own ends the connection with the worker, for the reason that came first.
func (w *isolated) own(c *Conn) {
	if c.prog != nil {
		go func() {
			select {
			case <-c.prog.ended:
			case <-c.done:
				return
			}
			select {
			case <-c.done: // the worker has noticed
			case <-time.After(endTime):
				c.end(errors.New(c.prog.why()))
			}
		}()
	}
	told := w.read(c)
	switch {
	case told == nil:
		c.end(&sentError{errors.New(w.why())})
	case c.prog != nil && told.Error() == stdoutClosed && c.prog.over(endTime):
		c.end(errors.New(c.prog.why())) // which the worker can't know
	default:
		c.end(told)
	}
}

// over waits for the program's end, for a while.
func (p *program) over(d time.Duration) bool {
	select {
	case <-p.ended:
		return true
	case <-time.After(d):
		return false
	}
}

// notify sends a notification by way of the worker.
func (w *isolated) notify(method string, params map[string]any) {
	raw, err := json.Marshal(params)
	if err == nil {
		err = w.out.send(frame{Kind: toNotify, Text: method, Body: raw})
	}
	if err != nil {
		w.log.Debug("a notification was not taken", "method", method, "error", err)
	}
}

func startWorker(ctx context.Context, t *Target, files []*os.File) (*isolated, error) {
	w := &isolated{name: t.Name, log: t.Log, stderr: newTail(t), first: make(chan frame, 1), ended: make(chan struct{}), calls: map[uint64]*workerCall{}}
	// The magic link is this binary, whatever has become of its file.
	s := child.Spec{Path: "/proc/self/exe", Args: []string{workerName}, KeepUser: true, KeepNetwork: len(files) == 0,
		ExtraFiles: files, Limits: child.Limits{Data: workerMemory}, Root: &child.Root{Mounts: child.SystemMounts()}}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if v, ok := os.LookupEnv(name); ok {
			s.Env = append(s.Env, name+"="+v)
		}
	}
	for _, name := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if v := os.Getenv(name); v != "" {
			s.Root.Mounts = append(s.Root.Mounts, child.Mount{Target: v, Source: v, Optional: true})
		}
	}
	if support := probe(ctx); !support.Namespaces {
		exe, err := os.Executable()
		if err != nil {
			return nil, err
		}
		t.Log.Warn("no walls for a worker on this machine", "reason", support.Reason)
		s.Path, s.Root, s.NoNamespaces, s.KeepNetwork = exe, nil, true, true
		if runtime.GOOS != "linux" {
			s.Limits = child.Limits{}
		}
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		inR.Close()
		inW.Close()
		return nil, err
	}
	s.Stdin, s.Stdout, s.Stderr = inR, outW, w.stderr
	w.child, err = child.Start(context.WithoutCancel(ctx), s)
	inR.Close()
	outW.Close()
	if err != nil {
		inW.Close()
		outR.Close()
		return nil, fmt.Errorf(`isolation = "server": no worker: %w`, err)
	}
	w.in, w.out = inW, &frameWriter{w: inW}
	w.frames = outR
	return w, nil
}

// greet tells the worker where the server is and waits for what it finds.
func (w *isolated) greet(ctx context.Context, t *Target, c *Conn) error {
	raw, err := json.Marshal(workerTarget{Name: t.Name, Transport: t.Transport, Known: t.Known, URL: t.URL, Headers: t.Headers, Program: len(t.Command) > 0, Asks: t.Asks, Secrets: t.Secrets,
		CallTimeout: t.CallTimeout, DiscoverTimeout: t.DiscoverTimeout, ClientVersion: t.ClientVersion})
	if err != nil {
		return err
	}
	if err := w.out.send(frame{Kind: toConnect, Body: raw}); err != nil {
		return &sentError{err}
	}
	select {
	case f := <-w.first:
		if f.Kind == fromFailed {
			return f.Err.unpack()
		}
		var r workerReady
		if err := json.Unmarshal(f.Body, &r); err != nil {
			return fmt.Errorf("the worker of server %q can't be understood: %w", w.name, err)
		}
		c.Info, c.Known = r.Info, r.Known
		return nil
	case <-w.ended:
		return &sentError{errors.New(w.why())}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// read takes the worker's frames until there are no more. It gives what the worker
// said of the connection's end; nil = it ended without a word.
func (w *isolated) read(c *Conn) (told error) {
	defer func() {
		w.frames.Close()
		w.mu.Lock()
		w.over = true
		w.mu.Unlock()
		close(w.ended)
	}()
	r := bufio.NewReaderSize(w.frames, 64<<10)
	for {
		f, err := readFrame(r)
		if err != nil {
			return told
		}
		if err := c.flow.message(1); err != nil {
			return err
		}
		switch f.Kind {
		case fromReady, fromFailed:
			select {
			case w.first <- f:
			default: // it has said so
			}
		case fromResult:
			w.mu.Lock()
			call := w.calls[f.ID]
			delete(w.calls, f.ID)
			w.mu.Unlock()
			if call != nil {
				call.answer <- f
			}
		case fromStep:
			w.mu.Lock()
			call := w.calls[f.ID]
			w.mu.Unlock()
			if call != nil && call.progress != nil {
				call.progress(f.Done, f.Total, clip(f.Text, 1000))
			}
		case fromChange:
			c.changed(Change(f.Text))
		case fromUpdate:
			if c.events.ResourceUpdated != nil {
				c.events.ResourceUpdated(f.Text)
			}
		case fromAsk:
			w.ask(c, f)
		case fromNoise:
			w.mu.Lock()
			w.noise = Noise{Lines: int64(f.ID), First: clip(f.Text, 200)}
			w.mu.Unlock()
		case fromLog:
			w.log.Log(context.Background(), slog.LevelDebug+slog.Level(min(f.ID, 12)), clip(f.Text, 4000))
		case fromEnded:
			told = f.Err.unpack()
		}
	}
}

// maxAsks is how many questions of one server are answered at once; a worker that
// asks more gets a no.
const maxAsks = 16

// ask answers a question of the server.
func (w *isolated) ask(c *Conn, f frame) {
	ctx := c.ctx
	w.mu.Lock()
	if call := w.calls[f.Call]; call != nil {
		ctx = call.ctx
	}
	full := w.asks >= maxAsks || c.events.Asked == nil
	if !full {
		w.asks++
	}
	w.mu.Unlock()
	go func() {
		answer := declined
		if !full {
			answer = c.events.Asked(ctx, f.Body)
			w.mu.Lock()
			w.asks--
			w.mu.Unlock()
		}
		if err := w.out.send(frame{Kind: toAnswer, ID: f.ID, Body: answer}); err != nil {
			w.log.Debug("an answer was not taken", "error", err)
		}
	}()
}

// request sends a request by way of the worker.
func (w *isolated) request(ctx context.Context, c *Conn, method string, params json.RawMessage, how Sending) (json.RawMessage, error) {
	tool, progress := how.Tool, how.Progress
	call := &workerCall{ctx: ctx, answer: make(chan frame, 1), progress: progress}
	w.mu.Lock()
	w.ids++
	id := w.ids
	w.calls[id] = call
	over := w.over
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.calls, id)
		w.mu.Unlock()
	}()
	if over {
		return nil, fmt.Errorf("%w: %s", ErrClosed, w.why())
	}
	c.flow.earn()
	f := frame{Kind: toRequest, ID: id, Text: method, Steps: progress != nil, Tasks: how.Tasks, Body: params}
	if tool != nil && c.modernHTTP() {
		f.Tool, f.Schema = tool.Name, tool.InputSchema
	}
	if err := w.out.send(f); err != nil {
		go w.close() // half a frame may have been written: nothing sensible can follow
		return nil, &sentError{fmt.Errorf("the worker of server %q takes nothing: %w", w.name, err)}
	}
	select {
	case f := <-call.answer:
		return f.Body, f.Err.unpack()
	case <-ctx.Done():
		if err := w.out.send(frame{Kind: toCancel, ID: id}); err != nil {
			w.log.Debug("a cancel was not taken", "error", err)
		}
		return nil, ctx.Err()
	case <-w.ended:
	case <-c.done:
	}
	select {
	case f := <-call.answer: // it came just before the end
		return f.Body, f.Err.unpack()
	default:
	}
	<-c.done // the connection says why
	return nil, &sentError{c.Err()}
}

// why says how the worker ended, with its last words.
func (w *isolated) why() string {
	<-w.ended
	<-w.child.Done()
	st, _ := w.child.Wait() // a descriptor that stays open is nobody's error here
	text := fmt.Sprintf("the worker of server %q ended", w.name)
	switch {
	case st.Signal != 0:
		text += fmt.Sprintf(" by signal %d", st.Signal)
	case st.Code != 0:
		text += fmt.Sprintf(" with exit code %d", st.Code)
	}
	if last := w.stderr.last(3); last != "" {
		text += "; its last words: " + last
	}
	return text
}

// close lets the worker take its leave, and ends it when that takes long.
func (w *isolated) close() {
	w.in.Close()
	select {
	case <-w.child.Done():
	case <-time.After(2 * stopGrace):
	}
	w.child.Stop()
	<-w.ended
}
