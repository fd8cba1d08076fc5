package downstream

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	workerName = "bulkhead-mcp-worker"
	// The descriptors of a program's pipes in its worker.
	workerStdin  = 3
	workerStdout = 4
)

// workerTarget is what a worker is told of its server.
type workerTarget struct {
	Name, Transport string
	Known           Known
	URL             string
	Headers         map[string]string
	Program         bool // it is a program, whose pipes are descriptors 3 and 4
	Asks            Asks
	Secrets         []string
	CallTimeout     time.Duration
	DiscoverTimeout time.Duration
	ClientVersion   string
}

// Init turns a process that was started as a worker into one; in every other it
// does nothing. It comes after child.Init in main, and in TestMain.
func Init() {
	if len(os.Args) > 0 && os.Args[0] == workerName {
		os.Exit(beWorker(os.Stdin, os.Stdout))
	}
}

// worker is the process that talks to one server in the bridge's stead. It ends
// with its stdin.
type worker struct {
	out  *frameWriter
	conn *Conn

	mu      sync.Mutex
	running map[uint64]context.CancelFunc
	asks    uint64
	answers map[uint64]chan json.RawMessage
}

func beWorker(in io.Reader, out io.Writer) int {
	w := &worker{out: &frameWriter{w: out}, running: map[uint64]context.CancelFunc{}, answers: map[uint64]chan json.RawMessage{}}
	r := bufio.NewReaderSize(in, 64<<10)
	first, err := readFrame(r)
	var t workerTarget
	if err != nil || first.Kind != toConnect || json.Unmarshal(first.Body, &t) != nil {
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	frames := make(chan frame)
	go func() {
		defer close(frames)
		defer cancel() // the bridge is gone, or wants an end
		for {
			f, err := readFrame(r)
			if err != nil {
				return
			}
			select {
			case frames <- f:
			case <-ctx.Done():
				return
			}
		}
	}()
	if err := w.connect(ctx, t); err != nil {
		_ = w.out.send(frame{Kind: fromFailed, Err: packError(err)}) // nobody is left to tell when this fails
		return 0
	}
	defer w.conn.Close()
	for {
		select {
		case f, ok := <-frames:
			if !ok {
				return 0
			}
			w.take(ctx, f)
		case <-w.conn.Done():
			_ = w.out.send(frame{Kind: fromEnded, Err: packError(w.conn.Err())}) // likewise
			return 0
		}
	}
}

func (w *worker) connect(ctx context.Context, t workerTarget) error {
	target := Target{Name: t.Name, Transport: t.Transport, Known: t.Known, URL: t.URL, Headers: t.Headers, Asks: t.Asks, Secrets: t.Secrets,
		CallTimeout: t.CallTimeout, DiscoverTimeout: t.DiscoverTimeout, ClientVersion: t.ClientVersion, Log: slog.New(frameLog{out: w.out})}
	if t.Program {
		target.pipes = &pipes{stdin: os.NewFile(workerStdin, "stdin of the server"), stdout: os.NewFile(workerStdout, "stdout of the server")}
	}
	conn, err := Connect(ctx, target, Events{
		Changed:         func(c Change) { w.tell(frame{Kind: fromChange, Text: string(c)}) },
		ResourceUpdated: func(uri string) { w.tell(frame{Kind: fromUpdate, Text: uri}) },
		Asked:           w.asked,
	})
	if err != nil {
		return err
	}
	w.conn = conn
	if conn.prog != nil {
		conn.prog.msgs.watch(func(n Noise) { w.tell(frame{Kind: fromNoise, ID: uint64(n.Lines), Text: n.First}) })
	}
	raw, err := json.Marshal(workerReady{conn.Info, conn.Known})
	if err != nil {
		return err
	}
	w.tell(frame{Kind: fromReady, Body: raw})
	return nil
}

// workerReady is what a worker found out about its server.
type workerReady struct {
	Info  Info
	Known Known
}

// tell sends a frame; when the bridge is gone the process ends by its stdin.
func (w *worker) tell(f frame) { _ = w.out.send(f) }

func (w *worker) take(ctx context.Context, f frame) {
	switch f.Kind {
	case toRequest:
		ctx, cancel := context.WithCancel(ctx)
		w.mu.Lock()
		w.running[f.ID] = cancel
		w.mu.Unlock()
		go func() {
			defer func() {
				w.mu.Lock()
				delete(w.running, f.ID)
				w.mu.Unlock()
				cancel()
			}()
			w.request(ctx, f)
		}()
	case toNotify:
		params := map[string]any{}
		_ = json.Unmarshal(f.Body, &params) // what can't be read is not sent
		go w.conn.notify(ctx, f.Text, params)
	case toAnswer:
		w.mu.Lock()
		answer := w.answers[f.ID]
		delete(w.answers, f.ID)
		w.mu.Unlock()
		if answer != nil {
			answer <- f.Body
		}
	case toCancel:
		w.mu.Lock()
		cancel := w.running[f.ID]
		w.mu.Unlock()
		if cancel != nil {
			cancel()
		}
	}
}

// declined answers a question that nobody else can.
var declined = json.RawMessage(`{"action":"decline"}`)

type requestKey struct{}

// asked passes a question of the server on to the bridge.
func (w *worker) asked(ctx context.Context, params json.RawMessage) json.RawMessage {
	answer := make(chan json.RawMessage, 1)
	w.mu.Lock()
	w.asks++
	id := w.asks
	w.answers[id] = answer
	w.mu.Unlock()
	call, _ := ctx.Value(requestKey{}).(uint64)
	w.tell(frame{Kind: fromAsk, ID: id, Call: call, Body: params})
	select {
	case a := <-answer:
		return a
	case <-ctx.Done():
		w.mu.Lock()
		delete(w.answers, id)
		w.mu.Unlock()
		return declined
	}
}

func (w *worker) request(ctx context.Context, f frame) {
	ctx = context.WithValue(ctx, requestKey{}, f.ID)
	var tool *Tool
	if f.Tool != "" {
		tool = &Tool{Name: f.Tool, InputSchema: f.Schema}
	}
	var progress Progress
	if f.Steps {
		progress = func(done, total float64, message string) {
			w.tell(frame{Kind: fromStep, ID: f.ID, Done: done, Total: total, Text: message})
		}
	}
	raw, err := w.conn.Send(ctx, f.Text, f.Body, Sending{Tool: tool, Progress: progress, Tasks: f.Tasks})
	if ctx.Err() != nil {
		return // nobody waits
	}
	answer := frame{Kind: fromResult, ID: f.ID, Body: raw}
	if err != nil {
		answer.Err = packError(err)
	}
	if err := w.out.send(answer); err != nil {
		w.tell(frame{Kind: fromResult, ID: f.ID, Err: packError(&sentError{fmt.Errorf("the answer can't be passed on: %w", err)})})
	}
}

// frameLog is a worker's log: lines of the bridge's.
type frameLog struct {
	out   *frameWriter
	attrs string
}

func (l frameLog) Enabled(context.Context, slog.Level) bool { return true }

func (l frameLog) Handle(_ context.Context, r slog.Record) error {
	var text strings.Builder
	text.WriteString(r.Message)
	text.WriteString(l.attrs)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&text, " %s=%q", a.Key, a.Value.String())
		return true
	})
	return l.out.send(frame{Kind: fromLog, ID: uint64(r.Level - slog.LevelDebug), Text: clip(text.String(), 4000)})
}

func (l frameLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		l.attrs += fmt.Sprintf(" %s=%q", a.Key, a.Value.String())
	}
	return l
}

func (l frameLog) WithGroup(string) slog.Handler { return l }
