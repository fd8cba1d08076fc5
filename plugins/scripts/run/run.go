// Package run is what a runner of scripts takes and gives. Runners differ in their
// walls: namespaces of this machine, a container, a pod of a cluster.
package run

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of what comes back from /out.
const (
	MaxFiles = 100
	MaxBytes = 64 << 20
)

// Languages a script may be written in.
const (
	Python     = "python"
	JavaScript = "javascript"
	Shell      = "shell"
)

// MaxEnvInput is how many bytes of input stand in the environment, too; the kernel
// takes little more in one variable.
const MaxEnvInput = 120_000

// Spec is one run.
type Spec struct {
	Language string
	Script   []byte
	Input    []byte
	Timeout  time.Duration
	Limits   Limits
	// Packages is a folder of Python packages, seen read-only as /deps; empty = none.
	Packages string
	// Wheels is a folder seen read-only as /wheels; empty = none.
	Wheels string
	// Index is a unix socket seen as /run/index.sock, beside the certificates of public
	// servers; empty = none.
	Index string
	// OutFiles and OutBytes bound what comes back from /out; 0 = MaxFiles, MaxBytes.
	OutFiles int
	OutBytes int64
	// Said is told what the script prints, as it comes; may be nil. It is called by
	// two goroutines.
	Said func(stream Stream, text []byte)
}

// Stream is where a script prints.
type Stream int

// The two.
const (
	Stdout Stream = iota
	Stderr
)

// Limits of one run.
type Limits struct {
	Memory    int64 // bytes of the whole tree of processes
	Processes int64
	Disk      int64 // bytes of /tmp, and again of /out
	Output    int   // bytes kept of each stream; a script that prints much more is ended
}

// Why a run ended.
const (
	Exited  = "exited"  // by itself: Exit is its code, or minus the signal
	Timeout = "timeout" //
	Memory  = "memory"  // it used more than it may
	Disk    = "disk"    // it made more files than it may, where that is watched
	Output  = "output"  // it printed more than it may
	Lost    = "lost"    // what watched it inside was ended
)

// Result is what came of a run.
type Result struct {
	Cause          string
	Exit           int
	Stdout, Stderr []byte
	// More bytes were printed than kept.
	StdoutCut, StderrCut bool
	Wall                 time.Duration
	PeakMemory           int64 // bytes, the most that was seen; 0 = not known
	Files                []File
	FilesLost            string // why some of /out are not there; empty = all are
}

// File is one that the script left in /out.
type File struct {
	Name string // a clean relative path
	Data []byte
}

// Installs says whether a run is an installation, which brings back more than scripts.
func (s Spec) Installs() bool { return s.Wheels != "" || s.Index != "" }

// TakesName says whether a file of /out may have this path: a clean relative one that
// can be shown.
func TakesName(name string) bool {
	return fs.ValidPath(name) && name != "." && len(name) <= 200 && !strings.ContainsRune(name, utf8.RuneError) && !strings.ContainsFunc(name, unicode.IsControl)
}

// Runner runs scripts, each behind walls of its own that end with it.
type Runner interface {
	// Name says what kind of runner it is.
	Name() string
	// Languages are those it can run here.
	Languages() []string
	// Run runs a script. An error is that of the runner; what a script does wrong is a
	// Result. When ctx ends the run is ended, and ctx's error given.
	Run(ctx context.Context, s Spec) (Result, error)
	// Close begins nothing more and waits for what runs: whoever is in a hurry ends the
	// contexts of that.
	Close()
}

// Failure is a runner that can't run anything here.
type Failure struct{ Runner, Reason string }

func (f *Failure) Error() string { return fmt.Sprintf("%s: %s", f.Runner, f.Reason) }
