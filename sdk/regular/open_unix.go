//go:build unix

package regular

import "syscall"

// nonBlock lets the opening of a FIFO return at once; reads of regular files are not
// changed by it.
const nonBlock = syscall.O_NONBLOCK
