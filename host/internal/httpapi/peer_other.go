//go:build !linux

package httpapi

import "net"

// SameUser admits whoever the socket file's mode lets in.
type SameUser struct {
	net.Listener
	// Refused is never called here.
	Refused func(pid int, why string)
}
