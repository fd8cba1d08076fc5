package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// capsForShim is what a shim of an ordinary user needs inside its own user
// namespace to mount, to bring the loopback up and to give the rest away.
var capsForShim = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP, unix.CAP_DAC_OVERRIDE}

// apply asks for the namespaces.
func (s spaces) apply(attr *syscall.SysProcAttr) {
	if s.User {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		root := os.Geteuid() == 0
		attr.UidMappings = identity("/proc/self/uid_map", os.Geteuid(), root)
		attr.GidMappings = identity("/proc/self/gid_map", os.Getegid(), root)
		attr.GidMappingsEnableSetgroups = root
		if !root {
			attr.AmbientCaps = capsForShim
		}
	}
	if s.PID {
		attr.Cloneflags |= syscall.CLONE_NEWPID
	}
	if s.Mount {
		attr.Cloneflags |= syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC
	}
	if s.Net {
		attr.Cloneflags |= syscall.CLONE_NEWNET
	}
}

// identity maps every id the host has to itself; an ordinary user may map only
// its own.
func identity(file string, id int, root bool) []syscall.SysProcIDMap {
	own := []syscall.SysProcIDMap{{ContainerID: id, HostID: id, Size: 1}}
	if !root {
		return own
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return own
	}
	var maps []syscall.SysProcIDMap
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var inside, outside, size int
		if _, err := fmt.Sscan(lines.Text(), &inside, &outside, &size); err != nil {
			return own
		}
		maps = append(maps, syscall.SysProcIDMap{ContainerID: inside, HostID: inside, Size: size})
	}
	return maps
}

var probed struct {
	sync.Once
	spaces
}

// machine finds out, once a process, which namespaces a shim may have. The
// kernel's switches do not tell: a clone may be allowed and every mount in it
// refused, so a shim is sent to try.
func machine(pretendNone bool) spaces {
	if pretendNone {
		return spaces{}
	}
	probed.Do(func() {
		tries := []spaces{
			{User: true, PID: true, Mount: true, Net: true},
			{User: true, PID: true, Mount: true},
		}
		if os.Geteuid() == 0 {
			tries = append(tries,
				spaces{PID: true, Mount: true, Net: true},
				spaces{PID: true, Mount: true})
		}
		for _, s := range tries {
			if try(s) {
				probed.spaces = s
				return
			}
		}
	})
	return probed.spaces
}

func try(s spaces) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	text, err := json.Marshal(order{Mode: modeProbe, NS: s})
	if err != nil {
		return false
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = []string{"bulkhead-sandbox", shimArg, "probe"}
	cmd.Env = []string{orderEnv + "=" + string(text)}
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	s.apply(cmd.SysProcAttr)
	return cmd.Run() == nil
}
