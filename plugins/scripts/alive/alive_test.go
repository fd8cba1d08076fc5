//go:build unix

package alive

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// In the child the test's program makes a mark, says its name, and waits to be killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("ALIVE_TEST_DIR"); dir != "" {
		mark, err := Here(dir)
		if err != nil {
			panic(err)
		}
		os.Stdout.WriteString(mark.Name + "\n")
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestAMarkLivesAsLongAsItsProcess(t *testing.T) {
	dir := t.TempDir()
	mine, err := Here(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "ALIVE_TEST_DIR="+dir)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	name, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	name = strings.TrimSpace(name)
	if !mine.Lives(name) || !mine.Lives(mine.Name) {
		t.Error("a living one is taken for dead")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	if mine.Lives(name) {
		t.Error("a dead one is taken for living")
	}
	for _, odd := range []string{"", "..", "/etc/passwd", "A", "a/b", "nobody"} {
		if mine.Lives(odd) {
			t.Errorf("%q lives", odd)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v %v", left, err)
	}
}
