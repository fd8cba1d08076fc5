//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protowire"
)

// child is what this binary does as its own grandchild.
func child(mode string) {
	switch mode {
	case "sleep":
		time.Sleep(time.Hour)
	case "pivot":
		if err := pivot(); err != nil {
			fmt.Println("error:", err)
			return
		}
		names, _ := filepath.Glob("/*")
		fmt.Printf("pid %d sees %s", os.Getpid(), strings.Join(names, " "))
	}
}

func pivot() error {
	root, err := os.MkdirTemp("", "root")
	if err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private: %w", err)
	}
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("tmpfs: %w", err)
	}
	if err := os.Mkdir(filepath.Join(root, "here"), 0o755); err != nil {
		return err
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	return os.Chdir("/")
}

// pivotChild starts a child in namespaces of its own, as a launcher does.
func pivotChild() string {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "TESTPLUGIN_CHILD=pivot")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGTERM,
	}
	text, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Sprintf("error: %v: %s", err, text)
	}
	return string(text)
}

func leave(session bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: session} }

func stopSelf() { syscall.Kill(os.Getpid(), syscall.SIGSTOP) }

// signalHost signals every process it can name that might be the host.
func signalHost(sig int) string {
	var got []string
	for _, pid := range []int{os.Getppid(), hostPID()} {
		if pid > 1 {
			got = append(got, fmt.Sprintf("%d: %v", pid, syscall.Kill(pid, syscall.Signal(sig))))
		} else {
			got = append(got, fmt.Sprintf("%d: not to be named", pid))
		}
	}
	return strings.Join(got, "; ")
}

// hostPID is what the test told of the host.
func hostPID() int {
	var pid int
	fmt.Sscan(os.Getenv("TESTPLUGIN_HOST"), &pid)
	return pid
}

// untie undoes the signal that ties this process to its parent, on every thread.
func untie() error {
	_, _, errno := syscall.AllThreadsSyscall(syscall.SYS_PRCTL, unix.PR_SET_PDEATHSIG, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// rawMessage is a result whose text is not UTF-8, which the codec would refuse
// to encode from the generated type.
type rawMessage struct{}

func badResult() []byte {
	text := protowire.AppendTag(nil, 1, protowire.BytesType)
	text = protowire.AppendBytes(text, []byte{0xff, 0xfe})
	content := protowire.AppendTag(nil, 1, protowire.BytesType)
	content = protowire.AppendBytes(content, text)
	event := protowire.AppendTag(nil, 4, protowire.BytesType)
	return protowire.AppendBytes(event, content)
}
