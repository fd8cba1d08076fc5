package sandbox

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dropCapabilities leaves this thread and all it execs without any.
func dropCapabilities() error {
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && err != unix.EINVAL {
			// Without CAP_SETPCAP the set can't shrink; then there is also
			// nothing to give up unless this is root.
			if err == unix.EPERM && unix.Geteuid() != 0 {
				break
			}
			return err
		}
	}
	if err := clearAmbient(); err != nil {
		return err
	}
	var none [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	return unix.Capset(&header, &none[0])
}

func clearAmbient() error {
	return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
}

// loopbackUp brings up the only device of a new network namespace.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := ioctl(fd, unix.SIOCSIFFLAGS, unsafe.Pointer(ifr)); err != nil {
		return fmt.Errorf("bring up lo: %w", err)
	}
	return nil
}

func ioctl(fd int, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}
