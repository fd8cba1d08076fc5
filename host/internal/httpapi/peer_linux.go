package httpapi

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// SameUser is a listener on a unix socket that admits only processes of the
// host's own user (and root), whatever the socket file's mode has become.
type SameUser struct{ net.Listener }

// Accept returns the next admitted connection.
func (l SameUser) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if sameUser(c) {
			return c, nil
		}
		_ = c.Close()
	}
}

func sameUser(c net.Conn) bool {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return false
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return false
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return err == nil && credErr == nil && (int(cred.Uid) == os.Getuid() || cred.Uid == 0)
}
