package testbin

import (
	"bytes"
	"sync"
)

// Buffer is what a process or a logger wrote; it may be read while it grows.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends p.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String is all that was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
