//go:build unix

package local

import (
	"archive/tar"
	"bytes"
	"cmp"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/scripts/run"
)

//go:embed bootstrap.py
var bootstrap string

// sharedName is the variable that says where shared files are.
const sharedName = "BULKHEAD_SHARED"

// keeperName in argv[0] makes this program a keeper.
const keeperName = "bulkhead-script-keeper"

// Init turns a process that was started as a keeper into one; in every other it does
// nothing. Call it first in main, and in TestMain.
func Init() {
	switch {
	case len(os.Args) == 4 && os.Args[0] == keeperName:
		os.Exit(keep(os.Args[1], os.Args[2], os.Args[3]))
	case len(os.Args) == 6 && os.Args[1] == keeperName: // bubblewrap names a program by its path
		if err := finishWalls(os.Args[5]); err != nil {
			fmt.Fprintln(os.Stderr, "the walls can't be finished:", err)
			os.Exit(1)
		}
		os.Exit(keep(os.Args[2], os.Args[3], os.Args[4]))
	}
}

// job is what a keeper is told on stdin once there is a script: a line of JSON, the
// script and the input.
type job struct {
	Script, Input int
	Timeout       time.Duration
	Files         int   // that come back from /out
	Bytes         int64 // of them together
}

// ending is what it says when the script has ended: a line of JSON, and then a tar
// of /out.
type ending struct {
	Cause  string
	Exit   int
	Memory int64  // bytes of the largest process
	Error  string // why the script could not be run
}

// keep is a keeper's life. base is the folder that /in, /out and /deps lie in.
func keep(language, base, program string) int {
	report := os.NewFile(3, "report")
	tell := func(e ending) {
		raw, err := json.Marshal(e)
		if err == nil {
			_, _ = report.Write(append(raw, '\n')) // nobody is left to tell
		}
	}
	// What the script gets is not to reach the keeper's own pipes.
	syscall.CloseOnExec(0)
	syscall.CloseOnExec(3)
	cmd, hand, err := prepare(language, base, program)
	if err != nil {
		tell(ending{Error: err.Error()})
		return 1
	}
	in := &lineReader{os.Stdin}
	line, err := in.line(1 << 16)
	if err != nil {
		return 1 // not needed any more
	}
	var j job
	if err := json.Unmarshal(line, &j); err != nil || j.Script < 0 || j.Input < 0 {
		tell(ending{Error: "the job can't be read"})
		return 1
	}
	script, input := make([]byte, j.Script), make([]byte, j.Input)
	if _, err := io.ReadFull(os.Stdin, script); err != nil {
		return 1
	}
	if _, err := io.ReadFull(os.Stdin, input); err != nil {
		return 1
	}
	if err := os.WriteFile(filepath.Join(base, "in/input"), input, 0o644); err != nil {
		tell(ending{Error: err.Error()})
		return 1
	}
	begin := time.Now()
	if err := hand(script, input); err != nil {
		tell(ending{Error: err.Error()})
		return 1
	}
	e := ending{Cause: run.Exited}
	timer := time.AfterFunc(j.Timeout-time.Since(begin), func() {
		e.Cause = run.Timeout
		killOthers(cmd, base)
	})
	err = cmd.Wait()
	if !timer.Stop() {
		e.Cause = run.Timeout
	}
	state := cmd.ProcessState
	if state == nil {
		tell(ending{Error: err.Error()})
		return 1
	}
	if e.Exit = state.ExitCode(); e.Exit < 0 {
		if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			e.Exit = -int(ws.Signal())
		}
	}
	if u, ok := state.SysUsage().(*syscall.Rusage); ok {
		e.Memory = int64(u.Maxrss) << 10
	}
	killOthers(cmd, base) // what it left running
	tell(e)
	pack(report, filepath.Join(base, "out"), j.Files, j.Bytes)
	return 0
}

// prepare starts the interpreter as far as that goes without a script; hand gives it
// the script.
func prepare(language, base, program string) (cmd *exec.Cmd, hand func(script, input []byte) error, err error) {
	tmp := filepath.Join(base, "tmp")
	shared := cmp.Or(os.Getenv(sharedName), "/shared")
	env := []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + tmp, "TMPDIR=" + tmp, "LANG=C.UTF-8", "LC_ALL=C.UTF-8",
		sharedName + "=" + shared, "ROCKBOT_SHARED_PATH=" + shared, "MPLBACKEND=Agg", "MPLCONFIGDIR=" + tmp, "PYTHONDONTWRITEBYTECODE=1"}
	cmd = &exec.Cmd{Path: program, Stdout: os.Stdout, Stderr: os.Stderr, Dir: filepath.Join(base, "out"), Env: env,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	if base != "/" {
		cmd.Env = append(cmd.Env, "BULKHEAD_OUT="+filepath.Join(base, "out"))
	}
	if language == run.Python {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, nil, err
		}
		cmd.Args = []string{"python3", "-I", "-u", "-c", run.Main + bootstrap, strings.TrimSuffix(base, "/")}
		cmd.ExtraFiles = []*os.File{r}
		if err := cmd.Start(); err != nil {
			return nil, nil, err
		}
		r.Close()
		return cmd, func(script, input []byte) error {
			if err := os.WriteFile(filepath.Join(base, "in/script.py"), script, 0o644); err != nil {
				return err
			}
			var out bytes.Buffer
			out.Write(binary.BigEndian.AppendUint64(nil, uint64(len(script))))
			out.Write(script)
			if len(script) == 0 {
				out.WriteByte(1)
			}
			if len(input) > run.MaxEnvInput || bytes.IndexByte(input, 0) >= 0 {
				input = nil
			}
			out.Write(binary.BigEndian.AppendUint64(nil, uint64(len(input))))
			out.Write(input)
			_, _ = w.Write(out.Bytes()) // one that ended already shows in how
			return w.Close()
		}, nil
	}
	return cmd, func(script, input []byte) error {
		name := filepath.Join(base, "in/script")
		if err := os.WriteFile(name, script, 0o644); err != nil {
			return err
		}
		if len(input) > run.MaxEnvInput || bytes.IndexByte(input, 0) >= 0 {
			input = nil
		}
		cmd.Args = []string{filepath.Base(program), name}
		cmd.Env = append(cmd.Env, "BULKHEAD_INPUT="+string(input), "ROCKBOT_INPUT="+string(input))
		return cmd.Start()
	}, nil
}

// killOthers ends what the script left running. Behind walls, where the keeper is the
// child of the first process of a namespace of its own, that is every process but these
// two. Without walls it is the script's group.
func killOthers(cmd *exec.Cmd, base string) {
	if base == "/" && os.Getppid() == 1 {
		_ = syscall.Kill(-1, syscall.SIGKILL) // there may be none
		return
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
}

// pack writes the regular files of a folder as a tar, as many as there may be. A link
// is not followed, and of what can't be read nothing comes.
func pack(w io.Writer, dir string, most int, bytes int64) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return
	}
	defer root.Close()
	t := tar.NewWriter(w)
	files, sum := 0, int64(0)
	// An archive that ends early is told by whoever reads it.
	_ = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
		if err != nil {
			return nil
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil || !info.Mode().IsRegular() {
			return nil
		}
		if files++; files > most {
			return t.WriteHeader(&tar.Header{Name: fmt.Sprintf("more than %d files", most), Typeflag: tar.TypeDir})
		}
		if sum += info.Size(); sum > bytes {
			return t.WriteHeader(&tar.Header{Name: fmt.Sprintf("more than %d bytes", bytes), Typeflag: tar.TypeDir})
		}
		if err := t.WriteHeader(&tar.Header{Name: name, Size: info.Size(), Mode: 0o644, Typeflag: tar.TypeReg, Format: tar.FormatPAX}); err != nil {
			return err
		}
		_, err = io.CopyN(t, f, info.Size())
		return err
	})
	_ = t.Close() // whoever reads notices a short one
}

// lineReader reads a line without a byte more.
type lineReader struct{ r io.Reader }

func (l *lineReader) line(most int) ([]byte, error) {
	var out []byte
	var b [1]byte
	for len(out) < most {
		if _, err := io.ReadFull(l.r, b[:]); err != nil {
			return nil, err
		}
		if b[0] == '\n' {
			return out, nil
		}
		out = append(out, b[0])
	}
	return nil, fmt.Errorf("a line of more than %d bytes", most)
}
