package child

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	llsys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// realRoot reports whether this process is root with its powers in the machine's
// own user namespace; only then can it give user ids away.
func realRoot() bool {
	if os.Geteuid() != 0 {
		return false
	}
	raw, err := os.ReadFile("/proc/self/uid_map")
	if err != nil || strings.Join(strings.Fields(string(raw)), " ") != "0 0 4294967295" {
		return false
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) != nil {
		return false
	}
	for _, c := range []uint{unix.CAP_SYS_ADMIN, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_NET_ADMIN} {
		if data[c/32].Effective&(1<<(c%32)) == 0 {
			return false
		}
	}
	return true
}

func landlockABI() int {
	v, err := llsys.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return v
}

// zombie reports whether a process has ended and only waits to be reaped.
func zombie(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, after, _ := bytes.Cut(raw, []byte(") "))
	return bytes.HasPrefix(after, []byte("Z"))
}

// Probe tries what this machine can give by starting a child that does nothing.
func Probe(ctx context.Context) Support {
	s := Support{Landlock: landlockABI(), OwnUser: realRoot()}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	c, err := Start(ctx, Spec{Path: "/proc/self/exe", Args: []string{nothingName}, Root: &Root{Mounts: []Mount{{Target: "/tmp"}}}})
	if err != nil {
		s.Reason = err.Error()
		return s
	}
	if st, err := c.Wait(); err != nil || st.Code != 0 {
		s.Reason = fmt.Sprintf("the trial child ended with %+v, %v", st, err)
		return s
	}
	s.Namespaces = true
	return s
}

// nothingName as argv[0] makes the init end well once its walls stand.
const nothingName = "bulkhead-child-nothing"

const pollTime = 10 * time.Millisecond
