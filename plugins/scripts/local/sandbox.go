//go:build unix

package local

import (
	"archive/tar"
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"sync"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/scripts/run"
	"github.com/bulkhead-dev/bulkhead/sdk/child"
)

// sandbox is one, for one run.
type sandbox struct {
	child    *child.Child
	job      *os.File // to the keeper
	report   *os.File // from it
	out, err sink
	stop     context.CancelFunc
	walls    walls
	base     string // folder of one without walls
}

func (b *sandbox) lives() bool {
	select {
	case <-b.child.Done():
		return false
	default:
		return true
	}
}

// end ends all that is in it, and lets go of it.
func (b *sandbox) end() {
	b.child.Stop()
	b.stop()
	_ = b.job.Close() // nobody reads there
	_ = b.report.Close()
	b.sweep()
}

// run runs the script and ends the sandbox.
func (b *sandbox) run(ctx context.Context, s run.Spec) (run.Result, error) {
	defer b.end()
	begin := time.Now()
	over := make(chan string, 4) // causes of an end from outside
	end := func(cause string) {
		select {
		case over <- cause:
		default:
		}
	}
	b.out.open(run.Stdout, s, end)
	b.err.open(run.Stderr, s, end)
	watch := b.walls.look(b.child.PID(), s.Limits.Memory, end)

	type told struct {
		ending
		files []run.File
		lost  string
		err   error
	}
	said := make(chan told, 1)
	_ = b.report.SetReadDeadline(begin.Add(s.Timeout + 2*endTime)) // pipes take deadlines
	go func() {
		var t told
		t.ending, t.files, t.lost, t.err = readReport(b.report, s.OutFiles, s.OutBytes)
		said <- t
	}()
	go b.tell(s) // ends with the sandbox
	timer := time.NewTimer(s.Timeout + endTime)
	defer timer.Stop()
	r := run.Result{}
	var t told
	select {
	case t = <-said:
	case r.Cause = <-over:
	case <-timer.C:
		r.Cause = run.Timeout // the keeper was stopped, or takes too long
	case <-ctx.Done():
		r.Cause = run.Timeout
	}
	b.child.Stop()
	status, err := b.child.Wait()
	r.Wall = time.Since(begin)
	r.PeakMemory = watch.end()
	if ctx.Err() != nil {
		return run.Result{}, context.Cause(ctx)
	}
	if err != nil {
		return run.Result{}, err
	}
	r.Stdout, r.StdoutCut = b.out.kept()
	r.Stderr, r.StderrCut = b.err.kept()
	if r.Cause != "" {
		return r, nil
	}
	select {
	case cause := <-over: // it ended as the limit was passed
		r.Cause = cause
		return r, nil
	default:
	}
	switch {
	case t.Error != "":
		return run.Result{}, fmt.Errorf("the script could not be begun: %s", t.Error)
	case t.Cause == "":
		r.Cause, r.Exit = run.Lost, status.Code
		return r, nil
	}
	r.Cause, r.Exit, r.Files, r.FilesLost = t.Cause, t.Exit, t.files, t.lost
	r.PeakMemory = max(r.PeakMemory, t.Memory)
	return r, nil
}

// tell hands the keeper its job.
func (b *sandbox) tell(s run.Spec) {
	head, err := json.Marshal(job{len(s.Script), len(s.Input), s.Timeout, s.OutFiles, s.OutBytes})
	if err != nil {
		return
	}
	_ = b.job.SetWriteDeadline(time.Now().Add(s.Timeout + endTime)) // pipes take deadlines
	for _, part := range [][]byte{append(head, '\n'), s.Script, s.Input} {
		if _, err := b.job.Write(part); err != nil {
			return // the report says how it ended
		}
	}
}

// readReport reads what a keeper says. Nothing of it is trusted: a script can take its
// keeper's place.
func readReport(r io.Reader, most int, bytes int64) (e ending, files []run.File, lost string, err error) {
	br := bufio.NewReader(io.LimitReader(r, bytes+int64(most+1024)*2048))
	line, err := br.ReadSlice('\n')
	if err == nil {
		err = json.Unmarshal(line, &e)
	}
	if err != nil {
		return ending{}, nil, "", err
	}
	if e.Cause != run.Exited && e.Cause != run.Timeout {
		e.Cause = ""
	}
	e.Memory = min(max(e.Memory, 0), 1<<50)
	if len(e.Error) > 500 {
		e.Error = e.Error[:500]
	}
	t := tar.NewReader(br)
	sum := int64(0)
	for {
		h, err := t.Next()
		switch {
		case errors.Is(err, io.EOF):
			return e, files, lost, nil
		case err != nil:
			return e, files, "they did not come whole", nil
		case h.Typeflag == tar.TypeDir:
			lost = "there are " + clean(h.Name)
			continue
		case h.Typeflag != tar.TypeReg || !run.TakesName(h.Name) || len(files) >= most:
			lost = "some have names or kinds that are not taken"
			continue
		}
		if sum += h.Size; h.Size < 0 || sum > bytes {
			return e, files, fmt.Sprintf("they have more than %d bytes", bytes), nil
		}
		data, err := io.ReadAll(io.LimitReader(t, h.Size))
		if err != nil || int64(len(data)) != h.Size {
			return e, files, "they did not come whole", nil
		}
		files = append(files, run.File{Name: path.Clean(h.Name), Data: data})
	}
}

func clean(s string) string { return s[:min(len(s), 60)] }

// sink takes what a script prints: so much is kept, and a flood ends the script.
type sink struct {
	mu     sync.Mutex
	stream run.Stream
	spec   *run.Spec
	end    func(cause string)
	buf    []byte
	total  int64
}

// floods is how many times the bytes that are kept may be printed, and at least
// leastFlood.
const (
	floods     = 16
	leastFlood = 1 << 20
)

func (s *sink) open(stream run.Stream, spec run.Spec, end func(string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream, s.spec, s.end = stream, &spec, end
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	if s.spec == nil {
		s.mu.Unlock()
		return len(p), nil // before its run a sandbox has nothing to say
	}
	room := max(s.spec.Limits.Output-len(s.buf), 0)
	fresh := p[:min(room, len(p))]
	s.buf = append(s.buf, fresh...)
	s.total += int64(len(p))
	flood := s.total > max(floods*int64(s.spec.Limits.Output), leastFlood)
	said, stream := s.spec.Said, s.stream
	s.mu.Unlock()
	if said != nil && len(fresh) > 0 {
		said(stream, fresh)
	}
	if flood {
		s.end(run.Output)
		return 0, errors.New("it prints too much")
	}
	return len(p), nil
}

func (s *sink) kept() (text []byte, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf, s.total > int64(len(s.buf))
}
