package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// holdEnv makes the test binary a parent that starts a child and waits to be
// killed; asNobodyEnv marks the second run of the tests.
const (
	holdEnv     = "CHILD_TEST_HOLD"
	asNobodyEnv = "CHILD_TEST_AS_NOBODY"
)

func TestMain(m *testing.M) {
	Init()
	if marker := os.Getenv(holdEnv); marker != "" {
		c, err := Start(context.Background(), Spec{Path: "/bin/sh", Args: sh("setsid sleep " + marker + " & sleep " + marker), Root: system()})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("running")
		c.Wait()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func sh(script string) []string { return []string{"/bin/sh", "-c", script} }

func system() *Root { return &Root{Mounts: SystemMounts()} }

func needNamespaces(t *testing.T) Support {
	t.Helper()
	s := Probe(t.Context())
	if !s.Namespaces {
		t.Skipf("no namespaces here: %s", s.Reason)
	}
	return s
}

// run runs a script to its end and gives its output and status.
func run(t *testing.T, spec Spec, script string) (string, Status) {
	t.Helper()
	var out bytes.Buffer
	spec.Path, spec.Args, spec.Stdout, spec.Stderr = "/bin/sh", sh(script), &out, &out
	if spec.Env == nil {
		spec.Env = []string{"PATH=/usr/bin:/bin"}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	c, err := Start(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	st, err := c.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), st
}

// sleepers counts running sleeps of exactly this many seconds on the machine.
func sleepers(t *testing.T, seconds string) int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, p := range all {
		raw, err := os.ReadFile(p)
		if err == nil && string(raw) == "sleep\x00"+seconds+"\x00" {
			n++
		}
	}
	return n
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not come about", what)
		}
	}
}

// unique gives a number of seconds no other test sleeps for.
func unique() string {
	return strconv.FormatInt(100000+time.Now().UnixNano()%1000000, 10) + strconv.Itoa(os.Getpid()%10)
}

func TestStatus(t *testing.T) {
	needNamespaces(t)
	out, st := run(t, Spec{Root: system(), Env: []string{"GREETING=moin"}}, `echo "$GREETING $(/usr/bin/env | /usr/bin/wc -l)"; exit 7`)
	if !strings.HasPrefix(out, "moin") || st.Code != 7 || st.Signal != 0 || st.Killed {
		t.Errorf("%q %+v", out, st)
	}
	if _, st := run(t, Spec{Root: system()}, `kill -9 $$`); st.Code != -1 || st.Signal != 9 {
		t.Errorf("%+v", st)
	}
	_, err := Start(t.Context(), Spec{Path: "/no/such/program", Root: system()})
	if err == nil || !strings.Contains(err.Error(), "/no/such/program: no such file") {
		t.Errorf("%v", err)
	}
}

func TestWalls(t *testing.T) {
	support := needNamespaces(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s3cret"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, _ := run(t, Spec{Root: system()}, `
		cat `+secret+` /etc/shadow; ls /root /home /work /sys 2>&1; echo "host $(cat /proc/sys/kernel/hostname)"
		echo x > /usr/x; echo x > /x; echo x > /etc/x; echo ok > /tmp/x && cat /tmp/x
		echo "processes $(ls -d /proc/[0-9]* | wc -l)"; echo "devices $(cut -d: -f1 /proc/net/dev | tail -n +3 | xargs)"
		echo "caps $(grep -c '^Cap[A-Za-z]*:.*0000000000000000' /proc/self/status)"; grep NoNewPrivs /proc/self/status
		echo "uid $(id -u)"; mount -t tmpfs none /tmp; unshare -U true; chroot / true; echo > /dev/null && echo devnull`)
	for _, want := range []string{"host sandbox", "\nok\n", "devices lo", "NoNewPrivs:\t1", "devnull"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	for _, bad := range []string{"s3cret", "root:*:", "root:!:", "root:$"} {
		if strings.Contains(out, bad) {
			t.Errorf("%q came through:\n%s", bad, out)
		}
	}
	if n := between(out, "processes ", "\n"); n == "" || len(n) > 1 {
		t.Errorf("the child sees %q processes", n)
	}
	if n := between(out, "caps ", "\n"); n < "4" { // permitted, effective, inheritable, ambient
		t.Errorf("%s empty sets of capabilities:\n%s", n, out)
	}
	uid, _ := strconv.Atoi(between(out, "uid ", "\n"))
	if support.OwnUser && uid < firstUser {
		t.Errorf("root's child runs as %d", uid)
	}
	if !support.OwnUser && uid != os.Geteuid() {
		t.Errorf("the child runs as %d", uid)
	}
}

func between(s, from, to string) string {
	_, s, _ = strings.Cut(s, from)
	s, _, _ = strings.Cut(s, to)
	return s
}

func TestOwnFolders(t *testing.T) {
	needNamespaces(t)
	work := t.TempDir()
	uid := User(Spec{})
	if err := os.Chown(work, uid, -1); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c, err := StartAs(t.Context(), Spec{
		Path: "/bin/sh", Args: sh("echo made > out && pwd && cat /given/f && echo x > /given/f"), Dir: "/work", Stdout: &out, Stderr: &out,
		Root: &Root{Mounts: append(SystemMounts(), Mount{Target: "/work", Source: work, Writable: true}, Mount{Target: "/given", Source: give(t, "f", "given")})},
	}, uid)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := c.Wait(); err != nil || st.Code == 0 {
		t.Errorf("%+v %v: the read-only folder was written", st, err)
	}
	if made, _ := os.ReadFile(filepath.Join(work, "out")); string(made) != "made\n" || !strings.Contains(out.String(), "/work\ngiven") {
		t.Errorf("%q %q", made, out.String())
	}
}

// give makes a folder that everyone can reach with one file.
func give(t *testing.T, name, text string) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			break // a folder above that is not ours
		}
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestLimits(t *testing.T) {
	support := needNamespaces(t)
	out, _ := run(t, Spec{Root: system(), Limits: Limits{
		Memory: 512 << 20, CPU: 5 * time.Second, Processes: 16, OpenFiles: 32, FileSize: 1 << 20,
	}}, `ulimit -v -t -n -c; i=0; while [ $i -lt 40 ]; do sleep 3 & i=$((i+1)); done 2>&1; echo "jobs $(jobs -p | wc -l)"; head -c 2000000 /dev/zero > /tmp/f; wc -c < /tmp/f`)
	if os.Geteuid() == 0 && !support.OwnUser {
		t.Log("root without a user id to give: the limit on processes does not bind")
	} else if !strings.Contains(out, "fork") {
		t.Errorf("40 processes of 16 start:\n%s", out)
	}
	if strings.Contains(out, "2000000") {
		t.Errorf("a file passes its limit:\n%s", out)
	}
}

func TestNothingOutlivesTheProgram(t *testing.T) {
	needNamespaces(t)
	mark := unique()
	start := time.Now()
	_, st := run(t, Spec{Root: system()}, "setsid sleep "+mark+" & exit 3")
	if st.Code != 3 || time.Since(start) > 30*time.Second {
		t.Errorf("%+v after %v", st, time.Since(start))
	}
	await(t, "the end of the grandchild", func() bool { return sleepers(t, mark) == 0 })
}

func TestTheContextEndsTheTree(t *testing.T) {
	needNamespaces(t)
	for name, spec := range map[string]Spec{
		"namespaces": {Root: system()},
		"none":       {NoNamespaces: true, KeepNetwork: true},
	} {
		t.Run(name, func(t *testing.T) {
			mark := unique()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			spec.Path, spec.Args, spec.Env = "/bin/sh", sh("trap '' TERM; setsid sleep "+mark+" & sleep "+mark), []string{"PATH=/usr/bin:/bin"}
			c, err := Start(ctx, spec)
			if err != nil {
				t.Fatal(err)
			}
			await(t, "the tree", func() bool { return sleepers(t, mark) == 2 })
			cancel()
			if st, err := c.Wait(); err != nil || !st.Killed {
				t.Errorf("%+v %v", st, err)
			}
			await(t, "the end of the tree", func() bool { return sleepers(t, mark) == 0 })
		})
	}
}

func TestStopIsPoliteFirst(t *testing.T) {
	needNamespaces(t)
	r, w := io.Pipe()
	defer r.Close()
	c, err := Start(t.Context(), Spec{Path: "/bin/sh", Args: sh("trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done"),
		Env: []string{"PATH=/usr/bin:/bin"}, Root: system(), Stdout: w, Grace: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(r, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	if st := c.Stop(); st.Code != 7 || !st.Killed {
		t.Errorf("%+v", st)
	}
}

func TestExtraFiles(t *testing.T) {
	needNamespaces(t)
	f, err := os.Open(filepath.Join(give(t, "f", "by descriptor"), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out, _ := run(t, Spec{Root: system(), ExtraFiles: []*os.File{f}, Stdin: strings.NewReader("by stdin ")}, `cat; cat <&3; echo; ls /proc/self/fd | wc -l`)
	if !strings.HasPrefix(out, "by stdin by descriptor\n5\n") { // 0 to 3, and the one ls has open
		t.Errorf("%q", out)
	}
}

// Whoever reads what a child was given to write to sees its end when the program
// closes it: nobody else in the tree keeps it open.
func TestExtraFilesAreTheProgramsAlone(t *testing.T) {
	needNamespaces(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c, err := Start(t.Context(), Spec{Path: "/bin/sh", Args: sh(`echo said >&3; exec 3>&-; exec sleep 1000`), Env: []string{"PATH=/usr/bin:/bin"}, Root: system(), ExtraFiles: []*os.File{w}})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	if err := r.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if raw, err := io.ReadAll(r); err != nil || string(raw) != "said\n" {
		t.Errorf("%v %q", err, raw)
	}
}

func TestLandlock(t *testing.T) {
	if landlockABI() == 0 {
		t.Skip("the kernel has no Landlock")
	}
	open, shut := give(t, "f", "open"), give(t, "f", "shut")
	out, _ := run(t, Spec{NoNamespaces: true, KeepNetwork: true, Files: &Files{
		Exec: []string{"/usr", "/bin", "/lib", "/lib64"}, Read: []string{open, "/etc/ld.so.cache"}, Write: []string{"/dev/null"},
	}}, "cat "+open+"/f; echo; cat "+shut+"/f; echo x > "+open+"/g; echo fine > /dev/null && echo end")
	if !strings.HasPrefix(out, "open\n") || strings.Contains(out, "shut\n") || !strings.HasSuffix(out, "end\n") {
		t.Errorf("%q", out)
	}
	if _, err := os.Stat(filepath.Join(open, "g")); err == nil {
		t.Error("a file was made in a read-only folder")
	}
}

func TestWhatCantBeHadIsAnError(t *testing.T) {
	for name, spec := range map[string]Spec{
		"root":     {Path: "/bin/true", NoNamespaces: true, KeepNetwork: true, Root: system()},
		"network":  {Path: "/bin/true", NoNamespaces: true},
		"relative": {Path: "true"},
		"mount":    {Path: "/bin/true", Root: &Root{Mounts: []Mount{{Target: "/x", Source: "/no/such"}}}},
	} {
		if _, err := Start(t.Context(), spec); err == nil {
			t.Errorf("%s: no error", name)
		} else if (name == "root" || name == "network") && !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNoChildOutlivesItsParent(t *testing.T) {
	needNamespaces(t)
	mark := unique()
	parent := exec.Command("/proc/self/exe")
	temp := t.TempDir()
	parent.Env = append(os.Environ(), holdEnv+"="+mark, "TMPDIR="+temp)
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 8)
	if _, err := io.ReadFull(out, line); err != nil || string(line) != "running\n" {
		t.Fatalf("%q %v", line, err)
	}
	await(t, "the tree", func() bool { return sleepers(t, mark) == 2 })
	// Nothing lies in the temporary folder that a killed parent could leave.
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%v %v", left, err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // it was killed
	await(t, "the end of the tree", func() bool { return sleepers(t, mark) == 0 })
}

// TestAsNobody runs the tests once more without root's powers.
func TestAsNobody(t *testing.T) {
	if os.Getenv(asNobodyEnv) != "" || os.Geteuid() != 0 {
		t.Skip("this is the run without root's powers")
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(give(t, "f", ""), "child.test")
	if err := os.WriteFile(bin, self, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "-test.v", "-test.timeout=120s")
	cmd.Dir = "/"
	cmd.Env = []string{asNobodyEnv + "=1", "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, Pdeathsig: unix.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%d tests passed as nobody, %d skipped", strings.Count(string(out), "--- PASS"), strings.Count(string(out), "--- SKIP"))
}
