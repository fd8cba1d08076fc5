package inside

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/scripts/run"
)

//go:embed keeper.py
var keeper string

// Command is what runs in the place: any Python from 3.7 on takes it.
func Command() []string { return []string{"python3", "-I", "-u", "-c", main + keeper} }

// main says in Python what the script is run by.
var main = func() string {
	text := run.Main + `
import sys
with open(sys.argv[1], "rb") as f:
    script = f.read()
_run(sys.argv[1], script, "/out")
`
	raw, err := json.Marshal(text) // a text in JSON is one in Python, too
	if err != nil {
		panic(err) // a text
	}
	return "MAIN = " + string(raw) + "\n"
}()

// Order is what a keeper is told, beside the script and its input.
type Order struct {
	Seconds float64 `json:"seconds"`
	Env     int     `json:"env"`   // bytes of input that stand in the environment, too
	Keep    int     `json:"keep"`  // bytes kept of each stream
	Flood   int     `json:"flood"` // bytes of one at which the script is ended
	Files   int     `json:"files"`
	Bytes   int64   `json:"bytes"`
	Script  int     `json:"script"` // bytes that follow on standard input
	Input   int     `json:"input"`  // bytes after those
}

// For is the order for a run, whose files have at most so many bytes together.
func For(s run.Spec, l run.Limits, most int64) Order {
	files, bytes := s.OutFiles, s.OutBytes
	if files == 0 {
		files = run.MaxFiles
	}
	if bytes == 0 || bytes > most {
		bytes = most
	}
	return Order{Seconds: s.Timeout.Seconds(), Env: run.MaxEnvInput, Keep: l.Output, Flood: max(16*l.Output, 1<<20), Files: files, Bytes: bytes,
		Script: len(s.Script), Input: len(s.Input)}
}

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

// Ear puts a run together out of lines. Nothing in them is trusted: a script may have
// found a way to write some.
type Ear struct {
	Said     func(stream run.Stream, text []byte) // told what is printed, once; may be nil
	Order    Order
	got      run.Result
	told     [2]int // bytes of each stream that were passed on
	file     *run.File
	left     int64
	sum      int64
	begun    bool
	complete bool
}

// Begin is said before a stream that is heard from its beginning, for the first time or
// again.
func (e *Ear) Begin() {
	e.got, e.file, e.left, e.sum = run.Result{}, nil, 0, 0
}

// Result is what was heard, and whether the keeper has said how the script ended.
func (e *Ear) Result() (got run.Result, complete bool) { return e.got, e.complete }

// Begun says whether the script was heard to run.
func (e *Ear) Begun() bool { return e.begun }

// ErrBroken says that a stream ended before anything was said.
var ErrBroken = errors.New("nothing was said")

// Hear reads a stream until the script's end was told, or the stream's.
func (e *Ear) Hear(r io.Reader) error {
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
		return ErrBroken
	}
	return nil
}

func (e *Ear) take(l line) {
	e.begun = e.begun || l.Running
	switch {
	case l.Stream == "out" || l.Stream == "err":
		buf, cut, i, stream := &e.got.Stdout, &e.got.StdoutCut, 0, run.Stdout
		if l.Stream == "err" {
			buf, cut, i, stream = &e.got.Stderr, &e.got.StderrCut, 1, run.Stderr
		}
		room := max(e.Order.Keep-len(*buf), 0)
		if len(l.Text) > room {
			l.Text, *cut = l.Text[:room], true
		}
		*buf = append(*buf, l.Text...)
		if fresh := len(*buf) - e.told[i]; fresh > 0 && e.Said != nil {
			e.Said(stream, (*buf)[e.told[i]:])
		}
		e.told[i] = max(e.told[i], len(*buf))
	case l.File != nil:
		e.file, e.left = nil, 0
		e.sum += max(l.Size, 0)
		if !run.TakesName(*l.File) || l.Size < 0 || len(e.got.Files) >= e.Order.Files || e.sum > e.Order.Bytes {
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
		case run.Exited, run.Timeout, run.Output, run.Memory:
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
