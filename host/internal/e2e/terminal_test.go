//go:build linux

package e2e

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/bulkhead/host/internal/plain"
)

// onTerminal runs a command on a terminal of its own and returns what it shows.
func (w *world) onTerminal(args ...string) string {
	w.t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		w.t.Skipf("no terminals here: %v", err)
	}
	defer master.Close()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		w.t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		w.t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		w.t.Skipf("no terminals here: %v", err)
	}
	cmd := exec.Command(bulkhead(w.t), args...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = w.dir, slave, slave, slave
	cmd.Env = append(os.Environ(), "NO_COLOR=1")
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	_ = slave.Close() // its copy is the command's
	timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	out, _ := io.ReadAll(master) // ends with an error when the last slave is closed
	_ = cmd.Wait()               // how it ends is not asked here
	return string(out)
}

// shows checks that text for people has what the plugin said, made harmless.
func shows(t *testing.T, what, out string) {
	t.Helper()
	if !strings.Contains(out, "approved") || !strings.Contains(out, `\u202e`) {
		t.Errorf("%s does not show what was said: %q", what, clip(out))
	}
	if i := strings.IndexFunc(out, plain.Bad); i >= 0 {
		t.Errorf("%s moves the terminal at byte %d: %q", what, i, clip(out))
	}
}

// What plugins say is shown to people as text: it neither clears the screen, nor
// turns the direction of writing, nor hides. A result that goes to a program is
// passed on as it came.
func TestTerminalsAreSafe(t *testing.T) {
	w := newWorld(t, hostile("fx", ""), "hostile")
	w.serve()
	shows(t, "tools NAME", w.ok("tools", "fx_spoof"))
	shows(t, "guide", w.ok("guide"))
	shows(t, "guide NAME", w.ok("guide", "fx"))
	_, errOut, _ := w.run("call", "fx_spoof", `{"fail":true}`)
	shows(t, "a failed call", errOut)
	w.run("call", "--session", "s", "fx_spoof", `{"ask":true}`)
	q := w.openQuestions()[0]
	full := w.ok("questions", q.ID)
	shows(t, "questions ID", full)
	says(t, full, "fx_spoof", "session s", "  | Second line", "The answer's schema:", `"path"`)
	if out := w.ok("questions"); strings.ContainsFunc(out, plain.Bad) {
		t.Errorf("questions: %q", out)
	}
	if out := w.ok("events"); strings.ContainsFunc(out, plain.Bad) {
		t.Errorf("events: %q", out)
	}
	w.fails(1, []string{"BH1013"}, "questions", "q_nothing")

	const raw = "result\x1b[2J\r\x1b[1Aapproved \u202egnp.exe\u202c \u009b31m\u200b\x07\n"
	if out := w.ok("call", "fx_spoof", "{}"); out != raw {
		t.Errorf("a result for a program: %q", out)
	}
	for _, args := range [][]string{{"call", "fx_spoof", "{}"}, {"call", "--json", "fx_spoof", "{}"}, {"tools", "--json", "fx_spoof"}, {"questions", "--json", q.ID}} {
		out := w.onTerminal(args...)
		if !strings.Contains(out, "approved") {
			t.Errorf("%v on a terminal: %q", args, out)
		}
		// What the command itself sends to wipe its line of progress is its own.
		for _, own := range []string{"\r\n", "\r\x1b[K"} {
			out = strings.ReplaceAll(out, own, "")
		}
		if i := strings.IndexFunc(out, plain.Bad); i >= 0 {
			t.Errorf("%v moves the terminal at byte %d: %q", args, i, out)
		}
	}
	// File names are text from outside too.
	w.write("bad\x1b[31m.hcl", "plugin \"x\" {\n  zzz = \"\x1b[2J\u202e\"\n}\n")
	out, errOut, code := w.run("check", "--config", "bad\x1b[31m.hcl")
	if code != 1 || strings.ContainsFunc(out+errOut, plain.Bad) || !strings.Contains(out, `bad\u001b[31m.hcl:2,3`) {
		t.Errorf("check: exit %d: %q %q", code, out, errOut)
	}
}
