//go:build !unix

package tree

import "io/fs"

func names(fs.FileInfo) uint64 { return 1 } // not told
