//go:build linux

// Package attacks is what scripts try that must come to nothing, whichever runner's
// walls they are behind. The tests of the runners use it.
package attacks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/bulkhead/plugins/scripts/run"
)

// Limits are those that a runner under attack keeps.
var Limits = run.Limits{Memory: 256 << 20, Processes: 32, Disk: 16 << 20, Output: 64 << 10}

// Runner is one under attack.
type Runner struct {
	run.Runner
	// NotThere are paths of the host that this runner's scripts have nothing at.
	NotThere []string
	// Ends are other ways in which an attack may end here: the cause of the end.
	Ends map[string]string
}

// calls lets a script make system calls by number.
const calls = `
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def call(nr, *args):
    ctypes.set_errno(0)
    r = libc.syscall(nr, *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    return "done" if r >= 0 else errno.errorcode[ctypes.get_errno()]
`

// Run makes the attacks. Every row is something a script tries; what it prints must be
// what is wanted.
func Run(t *testing.T, r Runner) {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	abstract := fmt.Sprintf("bulkhead-test-%d", os.Getpid())
	hidden, err := net.Listen("unix", "@"+abstract)
	if err != nil {
		t.Fatal(err)
	}
	defer hidden.Close()
	t.Setenv("MY_SECRET_TOKEN", "never-to-be-seen")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	port := tcp.Addr().(*net.TCPAddr).Port
	socket := func(family string, kind string) string {
		return fmt.Sprintf("import socket\ntry:\n    socket.socket(%s, %s); print('made')\nexcept OSError as e: print(e.errno == 13 or e.errno)", family, kind)
	}
	for name, row := range map[string]struct{ script, want string }{
		"TCP":                   {fmt.Sprintf("import socket\ntry:\n    socket.create_connection(('127.0.0.1', %d), 2); print('reached')\nexcept OSError as e: print('no')", port), "no"},
		"UDP":                   {socket("socket.AF_INET", "socket.SOCK_DGRAM"), "True"},
		"IPv6":                  {socket("socket.AF_INET6", "socket.SOCK_STREAM"), "True"},
		"netlink":               {socket("socket.AF_NETLINK", "socket.SOCK_RAW"), "True"},
		"packets":               {socket("socket.AF_PACKET", "socket.SOCK_RAW"), "True"},
		"the hypervisor":        {socket("40", "socket.SOCK_STREAM"), "True"}, // the socket can't be made; nothing is connected to
		"a socket without path": {fmt.Sprintf("import socket\ns = socket.socket(socket.AF_UNIX)\ntry:\n    s.connect('\\0%s'); print('reached')\nexcept OSError: print('no')", abstract), "no"},
		"files of the host":     {fmt.Sprintf("import os\nprint([p for p in %s if os.path.exists(p)])", pythonList(append(r.NotThere, "/dev/sda", "/dev/vda", "/dev/mem", "/proc/1/root"+secret, secret))), "[]"},
		"the environment":       {"import os\ndef read(p):\n    try: return open(p).read()\n    except OSError: return ''\nprint([v for v in list(os.environ.values()) + [read('/proc/%s/environ' % p) for p in ('1', str(os.getppid()))] if 'never' in v])", "[]"},
		"the processes":         {"import os\nprint(len([p for p in os.listdir('/proc') if p.isdigit()]) < 6)", "True"},
		"writing elsewhere":     {"import os\nout = []\nfor p in ('/x', '/usr/x', '/bin/x', '/etc/x', '/dev/x', '/run/x', '/run/keeper', '/proc/sys/kernel/core_pattern'):\n    try: open(p, 'w').close(); out.append(p)\n    except OSError: pass\nprint(out)", "[]"},
		"mount":                 {calls + fmt.Sprintf("print(call(%d, b'none', b'/tmp', b'tmpfs', 0, 0))", unix.SYS_MOUNT), "EPERM"},
		"umount":                {calls + fmt.Sprintf("print(call(%d, b'/usr', 2))", unix.SYS_UMOUNT2), "EPERM"},
		"a new mount interface": {calls + fmt.Sprintf("print(call(%d, b'tmpfs', 0), call(%d, -100, b'/', 0))", unix.SYS_FSOPEN, unix.SYS_OPEN_TREE), "EPERM EPERM"},
		"chroot":                {calls + fmt.Sprintf("print(call(%d, b'/tmp'))", unix.SYS_CHROOT), "EPERM"},
		"a device":              {calls + fmt.Sprintf("print(call(%d, -100, b'/tmp/d', 0o60666, 0x800))", unix.SYS_MKNODAT), "EPERM"},
		"a user namespace":      {calls + fmt.Sprintf("print(call(%d, 0x10000000), call(%d, 0x10000011, 0, 0, 0, 0), call(%d, b'x' * 88, 88))", unix.SYS_UNSHARE, unix.SYS_CLONE, unix.SYS_CLONE3), "EPERM EPERM ENOSYS"},
		"another namespace":     {calls + fmt.Sprintf("print(call(%d, os.open('/proc/self/ns/net', os.O_RDONLY), 0))", unix.SYS_SETNS), "EPERM"},
		"ptrace":                {calls + fmt.Sprintf("print(call(%d, 16, 1, 0, 0), call(%d, os.getppid(), 0, 0, 0, 0, 0))", unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV), "EPERM EPERM"},
		"keys":                  {calls + fmt.Sprintf("print(call(%d, 0, -3, 1), call(%d, b'user', b'a', b'b', 1, -3))", unix.SYS_KEYCTL, unix.SYS_ADD_KEY), "EPERM EPERM"},
		"io_uring":              {calls + fmt.Sprintf("print(call(%d, 8, b'\\0' * 120))", unix.SYS_IO_URING_SETUP), "EPERM"},
		"bpf, perf, userfaults": {calls + fmt.Sprintf("print(call(%d, 0, b'\\0' * 128, 128), call(%d, b'\\0' * 128, 0, -1, -1, 0), call(%d, 0))", unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD), "EPERM EPERM EPERM"},
		"capabilities":          {"print([l.split()[1] for l in open('/proc/self/status') if l.startswith('Cap')][:4])", "['0000000000000000', '0000000000000000', '0000000000000000', '0000000000000000']"},
		"a set-uid program":     {"import os, subprocess\np = subprocess.run(['/bin/su', '-c', 'id'], stdin=subprocess.DEVNULL, capture_output=True) if os.path.exists('/bin/su') else None\nprint(p is None or b'uid=0' not in p.stdout)", "True"},
		"forks without end":     {"import os, time\nn = 0\ntry:\n    while n < 2000:\n        if os.fork() == 0: time.sleep(60); os._exit(0)\n        n += 1\nexcept OSError: pass\nprint(n < 60 and n > 5)", "True"},
		"threads without end":   {"import threading, time\nn = 0\ntry:\n    while n < 2000:\n        threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); n += 1\nexcept (RuntimeError, MemoryError): pass\nprint(n < 60)", "True"},
		"memory of one":         {"try:\n    x = []\n    while len(x) < 600: x.append(bytearray(1 << 20))\n    print(len(x))\nexcept MemoryError:\n    del x\n    print('MemoryError')", "MemoryError"},
		"a full disk":           {"import errno\nout = []\nfor d in ('/tmp', '/out', '/dev/shm'):\n    n = 0\n    try:\n        for i in range(200):\n            with open(d + '/f%d' % i, 'wb') as f: f.write(b'x' * (1 << 20)); n += 1\n    except OSError as e: out.append(errno.errorcode[e.errno])\n    import shutil, glob, os\n    for f in glob.glob(d + '/f*'): os.unlink(f)\nprint(out)", "['ENOSPC', 'ENOSPC', 'ENOSPC']"},
		"files without end":     {"import errno, os\nout = []\nfor d in ('/tmp', '/out', '/dev/shm', '/in'):\n    os.makedirs(d + '/d')\n    try:\n        for i in range(100000): os.close(os.open(d + '/d/%d' % i, os.O_CREAT | os.O_WRONLY))\n    except OSError as e: out.append(errno.errorcode[e.errno])\nprint(out)\nimport shutil; shutil.rmtree('/out/d')", "['ENOSPC', 'ENOSPC', 'ENOSPC', 'ENOSPC']"},
		"one large file":        {"import errno\ntry:\n    f = open('/tmp/x', 'wb')\n    f.truncate(1 << 40)\n    print('made')\nexcept OSError as e: print(errno.errorcode[e.errno])", "EFBIG"},
		"processes of a pool":   {"import multiprocessing as m\nif __name__ == '__main__':\n    with m.get_context('fork').Pool(2) as p: print(p.map(abs, [-1, -2]))", "[1, 2]"}, // what must work
	} {
		t.Run(name, func(t *testing.T) {
			got := python(t, r, row.script)
			if ends := r.Ends[name]; ends != "" && got.Cause == ends {
				return
			}
			if out := strings.TrimSpace(string(got.Stdout)); out != row.want || got.Cause != run.Exited {
				t.Errorf("%q, want %q; %s, exit %d, %s", out, row.want, got.Cause, got.Exit, got.Stderr)
			}
		})
	}
	t.Run("memory of a tree", func(t *testing.T) {
		got := python(t, r, "import os, time\nfor i in range(6):\n    if os.fork() == 0:\n        x = bytearray(60 << 20)\n        for i in range(0, len(x), 4096): x[i] = 1\n        time.sleep(60); os._exit(0)\ntime.sleep(60)")
		if got.Cause != run.Memory || got.PeakMemory < 200<<20 || got.PeakMemory > 400<<20 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("a flood of output", func(t *testing.T) {
		got := python(t, r, "import os\nwhile True: os.write(1, b'x' * 65536)")
		if got.Cause != run.Output || len(got.Stdout) != Limits.Output || !got.StdoutCut {
			t.Errorf("%s, %d bytes", got.Cause, len(got.Stdout))
		}
	})
	t.Run("signals ignored", func(t *testing.T) {
		got := python(t, r, "import signal\nfor s in range(1, 65):\n    try: signal.signal(s, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nprint('on')\nwhile True: pass", func(s *run.Spec) { s.Timeout = time.Second })
		if got.Cause != run.Timeout || string(got.Stdout) != "on\n" || got.Wall > 20*time.Second {
			t.Errorf("%+v %s", got, got.Stdout)
		}
	})
	t.Run("children that stay", func(t *testing.T) {
		marker := strconv.Itoa(700_000 + os.Getpid()%100_000)
		got := python(t, r, "import subprocess\nsubprocess.Popen(['setsid', 'sleep', '"+marker+"'])\nprint('gone')")
		if got.Cause != run.Exited || string(got.Stdout) != "gone\n" {
			t.Errorf("%+v %s", got, got.Stderr)
		}
		if n := Sleepers(t, marker); n != 0 {
			t.Errorf("%d are left", n)
		}
	})
	t.Run("its keeper is killed", func(t *testing.T) {
		got := python(t, r, "import os, signal, time\nprint('on', flush=True)\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(60)", func(s *run.Spec) { s.Timeout = 5 * time.Second })
		if got.Cause != cmp.Or(r.Ends["its keeper is killed"], run.Lost) || len(got.Files) != 0 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("its keeper is stopped", func(t *testing.T) {
		got := python(t, r, "import os, signal, time\nos.kill(os.getppid(), signal.SIGSTOP)\ntime.sleep(60)", func(s *run.Spec) { s.Timeout = time.Second })
		if got.Cause != run.Timeout || got.Wall > 30*time.Second {
			t.Errorf("%+v", got)
		}
	})
	t.Run("its keeper's report is forged", func(t *testing.T) {
		got := python(t, r, `
import io, os, json, tarfile
try:
    f = os.open("/proc/%d/fd/3" % os.getppid(), os.O_WRONLY)
except OSError:
    print("no")
    raise SystemExit
b = io.BytesIO()
t = tarfile.open(fileobj=b, mode="w")
for name, kind in (("../../etc/cron.d/x", tarfile.REGTYPE), ("/abs", tarfile.REGTYPE), ("l", tarfile.SYMTYPE), ("h", tarfile.LNKTYPE), ("d", tarfile.CHRTYPE), ("f", tarfile.FIFOTYPE), ("ok", tarfile.REGTYPE)):
    i = tarfile.TarInfo(name); i.type, i.linkname = kind, "/etc/passwd"
    t.addfile(i)
t.close()
os.write(f, json.dumps({"Cause": "exited", "Exit": 0, "Memory": 1 << 62}).encode() + b"\n" + b.getvalue())
`)
		for _, f := range got.Files {
			if f.Name != "ok" {
				t.Errorf("the file %q is taken", f.Name)
			}
		}
	})
	t.Run("tricks in /out", func(t *testing.T) {
		got := python(t, r, fmt.Sprintf(`
import os
os.symlink("/etc/shadow", "/out/link"); os.symlink("..", "/out/up"); os.symlink(%q, "/out/secret"); os.mkfifo("/out/fifo")
os.symlink("/in", "/out/in"); os.makedirs("/out/deep/er"); open("/out/deep/er/f", "w").write("x"); os.chmod("/out/deep/er/f", 0)
open("/out/ok", "w").write("ok"); os.link("/out/ok", "/out/ok2")
open("/out/sparse", "w").truncate(8 << 20)
import socket; s = socket.socket(socket.AF_UNIX); s.bind("/out/socket")
`, secret))
		names := []string{}
		for _, f := range got.Files {
			names = append(names, f.Name)
			if strings.Contains(string(f.Data), "root:") || string(f.Data) == "secret" {
				t.Errorf("%s holds %q", f.Name, f.Data)
			}
		}
		if strings.Join(names, " ") != "ok ok2 sparse" {
			t.Errorf("%v, %s", names, got.Stderr)
		}
	})
	t.Run("names in /out", func(t *testing.T) {
		got := python(t, r, "for n in ('a\\nb', 'x' * 250, 'e\\x1b[2J', 'good', 'ü', 'a b'): open('/out/' + n, 'w').write('1')\nimport os\nopen(b'/out/\\xff', 'w').write('1')")
		names := []string{}
		for _, f := range got.Files {
			names = append(names, f.Name)
		}
		slices.Sort(names)
		if strings.Join(names, ",") != "a b,good,ü" || got.FilesLost == "" {
			t.Errorf("%q, lost %q, %s", names, got.FilesLost, got.Stderr)
		}
	})
	t.Run("many files in /out", func(t *testing.T) {
		got := python(t, r, "for i in range(150): open('/out/%03d' % i, 'w').write('x')")
		if len(got.Files) != run.MaxFiles || !strings.Contains(got.FilesLost, "more than 100 files") {
			t.Errorf("%d files, %q", len(got.Files), got.FilesLost)
		}
	})
	t.Run("nothing stays for the next", func(t *testing.T) {
		python(t, r, "import os\nfor d in ('/tmp', '/out', '/in', '/dev/shm'): open(d + '/left', 'w').write('x')")
		got := python(t, r, "import os\nprint([d for d in ('/tmp', '/out', '/in', '/dev/shm') if os.path.exists(d + '/left')])")
		if string(got.Stdout) != "[]\n" {
			t.Errorf("%s", got.Stdout)
		}
	})
}

// Leave is a caller that leaves: it ends the run, and all of it.
func Leave(t *testing.T, r run.Runner) {
	t.Helper()
	marker := strconv.Itoa(800_000 + os.Getpid()%100_000)
	ctx, cancel := context.WithCancelCause(t.Context())
	left := errors.New("left")
	_, err := r.Run(ctx, run.Spec{Language: run.Python, Script: []byte("import subprocess\np = subprocess.Popen(['setsid', 'sleep', '" + marker + "'])\nprint('on', flush=True)\np.wait()"), Timeout: time.Minute,
		Said: func(run.Stream, []byte) { cancel(left) }})
	if !errors.Is(err, left) {
		t.Errorf("%v", err)
	}
	if n := Sleepers(t, marker); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// Many makes n runs, some at a time: none may be lost.
func Many(t *testing.T, r run.Runner, n, atATime int) {
	t.Helper()
	var wg sync.WaitGroup
	work := make(chan int)
	var mu sync.Mutex
	done := 0
	for range atATime {
		wg.Go(func() {
			for i := range work {
				got, err := r.Run(t.Context(), run.Spec{Language: run.Python, Script: []byte("print(" + strconv.Itoa(i) + ")"), Timeout: time.Minute})
				if err != nil || got.Cause != run.Exited || string(got.Stdout) != strconv.Itoa(i)+"\n" {
					t.Errorf("%d: %+v %s %v", i, got, got.Stdout, err)
					continue
				}
				mu.Lock()
				done++
				mu.Unlock()
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	wg.Wait()
	if done != n {
		t.Errorf("%d of %d were run", done, n)
	}
}

// Sleepers counts running sleeps of exactly this many seconds on the machine.
func Sleepers(t *testing.T, seconds string) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if raw, err := os.ReadFile(p); err == nil && string(raw) == "sleep\x00"+seconds+"\x00" {
			n++
		}
	}
	return n
}

func pythonList(all []string) string {
	raw, err := json.Marshal(all)
	if err != nil {
		panic(err) // strings
	}
	return string(raw)
}

func python(t *testing.T, r run.Runner, script string, more ...func(*run.Spec)) run.Result {
	t.Helper()
	s := run.Spec{Language: run.Python, Script: []byte(script), Timeout: 30 * time.Second}
	for _, m := range more {
		m(&s)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := r.Run(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	return got
}
