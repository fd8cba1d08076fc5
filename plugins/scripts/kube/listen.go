package kube

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bulkhead-dev/bulkhead/plugins/scripts/run"
)

// line is one that a keeper writes. Which fields there are says what it is.
type line struct {
	Running bool    `json:"running"`
	Stream  string  `json:"stream"`
	Text    []byte  `json:"text"`
	File    *string `json:"file"`
	Size    int64   `json:"size"`
	Data    []byte  `json:"data"`
	End     string  `json:"end"`
	Exit    int     `json:"exit"`
	Wall    float64 `json:"wall"`
	Memory  int64   `json:"memory"`
	Lost    string  `json:"lost"`
}

// maxLine is the longest a keeper writes: a part of a file in base64.
const maxLine = 256 << 10

// listen follows a pod's log until its keeper has said how the script ended, which is
// complete, or the log ends. A stream that breaks off is opened again from its
// beginning, and what was heard already is passed over. Nothing in it is trusted: the
// script can write there, too.
func (r *Runner) listen(ctx context.Context, name string, s run.Spec) (got run.Result, complete bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout+endTime)
	defer cancel()
	e := &ear{spec: s, keep: r.o.Limits.Output}
	for try := 0; try < 5; try++ {
		e.begin()
		var stream io.ReadCloser
		stream, err = r.api.CoreV1().Pods(r.o.Namespace).GetLogs(name, &corev1.PodLogOptions{Container: container, Follow: true}).Stream(ctx)
		if err == nil {
			err = e.hear(stream)
			stream.Close()
			if e.complete || err == nil {
				break
			}
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return e.got, false, ctx.Err()
		}
	}
	return e.got, e.complete, err
}

// ear puts a run together out of lines.
type ear struct {
	spec     run.Spec
	keep     int
	got      run.Result
	told     [2]int // bytes of each stream that were passed on
	file     *run.File
	left     int64
	sum      int64
	complete bool
}

func (e *ear) begin() {
	e.got, e.file, e.left, e.sum = run.Result{}, nil, 0, 0
}

var errBroken = errors.New("the log breaks off")

func (e *ear) hear(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	heard := false
	for lines.Scan() {
		var l line
		if json.Unmarshal(lines.Bytes(), &l) != nil {
			continue // the script's own, or the runtime's
		}
		heard = true
		if e.take(l); e.complete {
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if !heard {
		return errBroken // nothing yet: the container had not begun
	}
	return nil
}

func (e *ear) take(l line) {
	switch {
	case l.Stream == "out" || l.Stream == "err":
		buf, cut, i, stream := &e.got.Stdout, &e.got.StdoutCut, 0, run.Stdout
		if l.Stream == "err" {
			buf, cut, i, stream = &e.got.Stderr, &e.got.StderrCut, 1, run.Stderr
		}
		room := max(e.keep-len(*buf), 0)
		if len(l.Text) > room {
			l.Text, *cut = l.Text[:room], true
		}
		*buf = append(*buf, l.Text...)
		if fresh := len(*buf) - e.told[i]; fresh > 0 && e.spec.Said != nil {
			e.spec.Said(stream, (*buf)[e.told[i]:])
		}
		e.told[i] = max(e.told[i], len(*buf))
	case l.File != nil:
		e.file, e.left = nil, 0
		e.sum += max(l.Size, 0)
		if !fs.ValidPath(*l.File) || *l.File == "." || len(*l.File) > 200 || l.Size < 0 || len(e.got.Files) >= run.MaxFiles || e.sum > maxLogFiles {
			e.got.FilesLost = "some have names or sizes that are not taken"
			return
		}
		e.got.Files = append(e.got.Files, run.File{Name: *l.File})
		e.file, e.left = &e.got.Files[len(e.got.Files)-1], l.Size
	case l.Data != nil && e.file != nil:
		n := min(int64(len(l.Data)), e.left)
		e.file.Data = append(e.file.Data, l.Data[:n]...)
		e.left -= n
	case l.End != "":
		switch l.End {
		case run.Exited, run.Timeout, run.Output:
			e.got.Cause = l.End
		default:
			e.got.Cause = run.Lost
		}
		e.got.Exit, e.got.Wall, e.got.PeakMemory = l.Exit, time.Duration(min(max(l.Wall, 0), 1e6)*float64(time.Second)), min(max(l.Memory, 0), 1<<50)
		if l.Lost != "" {
			e.got.FilesLost = l.Lost[:min(len(l.Lost), 200)]
		}
		e.got.StdoutCut = e.got.StdoutCut || e.got.Cause == run.Output
		e.complete = true
	}
}
