package httpapi

import (
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/bulkhead/host/internal/sandbox"
)

// SameUser is a listener on a unix socket that admits only processes of the
// host's own user (and root), whatever the socket file's mode has become, and of
// those no plugin: who may use the socket is the operator.
type SameUser struct {
	net.Listener
	// Refused, if not nil, hears why a connection was closed at once.
	Refused func(pid int, why string)
}

// Accept returns the next admitted connection.
func (l SameUser) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		pid, why := refusal(c)
		if why == "" {
			return c, nil
		}
		_ = c.Close()
		if l.Refused != nil {
			l.Refused(pid, why)
		}
	}
}

// refusal is why the process at the other end is not the operator; empty when it
// may be.
func refusal(c net.Conn) (pid int, why string) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return 0, "it does not come by a unix socket"
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0, err.Error()
	}
	err = raw.Control(func(fd uintptr) { pid, why = refusalOf(int(fd)) })
	if err != nil {
		return pid, err.Error()
	}
	return pid, why
}

func refusalOf(fd int) (int, string) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	switch {
	case err != nil:
		return 0, "the kernel does not tell who it is: " + err.Error()
	case int(cred.Uid) != os.Getuid() && cred.Uid != 0:
		return int(cred.Pid), "it belongs to another user"
	case int(cred.Pid) == os.Getpid():
		return int(cred.Pid), ""
	case cred.Pid == 0:
		return 0, "it lives in a PID namespace this host can't see into"
	}
	// The socket's own handle stays that of the process that connected, even when
	// its number has been given to another one.
	pidfd, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if err == unix.ENOPROTOOPT { // before Linux 6.5
		pidfd, err = unix.PidfdOpen(int(cred.Pid), 0)
	}
	if err != nil {
		return int(cred.Pid), "it has ended: " + err.Error()
	}
	defer unix.Close(pidfd)
	if err := sandbox.Outside(pidfd); err != nil {
		return int(cred.Pid), err.Error()
	}
	return int(cred.Pid), ""
}
