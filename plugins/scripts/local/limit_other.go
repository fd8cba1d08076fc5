//go:build unix && !linux

package local

import "github.com/bulkhead-dev/bulkhead/sdk/child"

func setProcesses(uint64) error { return child.ErrUnsupported }
