package httpapi

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// dialEnv turns a start of the test binary into a peer: it connects and tells
// what it read.
const dialEnv = "PEER_DIAL"

func init() {
	socket := os.Getenv(dialEnv)
	if socket == "" {
		return
	}
	c, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	if os.Getenv("PEER_LEAVE") != "" { // a child keeps the connection
		os.Exit(0)
	}
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	var b [8]byte
	n, _ := c.Read(b[:])
	fmt.Println("read", string(b[:n]))
	os.Exit(0)
}

// The control socket admits this process and strangers of the same user, as the
// operator's shell is one; whom this process started is refused: its child, a
// grandchild whose parent is gone, one in a PID namespace, one that has ended.
func TestPeers(t *testing.T) {
	// As a host does whose plugins run under keepers.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
	socket := filepath.Join(t.TempDir(), "s")
	raw, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	refused := make(chan string, 8)
	l := SameUser{Listener: raw, Refused: func(_ int, why string) { refused <- why }}
	admitted := make(chan struct{}, 8)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			admitted <- struct{}{}
			_, _ = c.Write([]byte("hello"))
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close() })

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), dialEnv+"="+socket)
	spawn := func(attr *syscall.SysProcAttr, more string, name string, args ...string) func() error {
		return func() error {
			cmd := exec.Command(name, args...)
			cmd.Env, cmd.SysProcAttr = append(env, more), attr
			return cmd.Run()
		}
	}
	rows := []struct {
		name string
		do   func() error
		word string // of the refusal; empty: admitted
	}{
		{"this process", func() error { c, err := net.Dial("unix", socket); return errorsClose(c, err) }, ""},
		{"a child", spawn(nil, "", self), "this host started it"},
		{"a grandchild", spawn(nil, "", "/bin/sh", "-c", `"$0"; true`, self), "this host started it"},
		{"an orphan in a session of its own", spawn(&syscall.SysProcAttr{Setsid: true}, "", "/bin/sh", "-c", `(sleep 0.2; exec "$0") >/dev/null 2>&1 &`, self), "this host started it"},
		{"one that has ended", func() error {
			// Nobody accepts until the peer is gone.
			return spawn(nil, "PEER_LEAVE=1", self)()
		}, "it has ended"},
		{"one in a PID namespace", spawn(&syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}}, "", self), "PID namespace"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if err := row.do(); err != nil {
				if row.word == "PID namespace" {
					t.Skipf("no PID namespace here: %v", err)
				}
				t.Fatal(err)
			}
			select {
			case why := <-refused:
				ended := strings.Contains(why, "it has ended") || strings.Contains(why, "this host started it")
				if row.word == "" || !strings.Contains(why, row.word) && !(row.word == "it has ended" && ended) {
					t.Errorf("refused: %s", why)
				}
			case <-admitted:
				if row.word != "" {
					t.Error("admitted")
				}
			case <-time.After(20 * time.Second):
				t.Fatal("nobody came")
			}
		})
	}
	t.Run("a stranger", func(t *testing.T) {
		// Without a subreaper an orphan belongs to nobody here.
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0); err != nil {
			t.Fatal(err)
		}
		if err := spawn(&syscall.SysProcAttr{Setsid: true}, "", "/bin/sh", "-c", `(sleep 0.5; exec "$0") >/dev/null 2>&1 &`, self)(); err != nil {
			t.Fatal(err)
		}
		select {
		case why := <-refused:
			t.Errorf("refused: %s", why)
		case <-admitted:
		case <-time.After(20 * time.Second):
			t.Fatal("nobody came")
		}
	})
}

func errorsClose(c net.Conn, err error) error {
	if err != nil {
		return err
	}
	return c.Close()
}
