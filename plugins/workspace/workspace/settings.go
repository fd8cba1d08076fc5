package workspace

import (
	"context"
	"path/filepath"
	"regexp"

	"github.com/bulkhead-dev/bulkhead/sdk"
)

// settings of the plugin, as in its config block.
type settings struct {
	Workspaces   []block  `hcl:"workspace,block" doc:"A folder agents may work in; the first is where plain paths lead. Without any it is the shared folder."`
	ReadMaxChars int      `hcl:"read_max_chars,optional" doc:"Characters of a file given at once; longer ones are read in pages of whole lines."`
	MaxFile      sdk.Size `hcl:"max_file,optional" doc:"Largest file that is read or written."`
	Versions     int      `hcl:"history_versions,optional" doc:"Earlier versions kept of a file."`
	History      sdk.Size `hcl:"history_size,optional" doc:"Bytes of earlier versions kept of each workspace."`
}

// block is one workspace.
type block struct {
	Name      string   `hcl:"name,label"`
	Path      string   `hcl:"path" bulkhead:"path=write" doc:"The folder."`
	ReadOnly  bool     `hcl:"read_only,optional" doc:"Files are read and searched, never changed."`
	Quota     sdk.Size `hcl:"quota,optional" doc:"Bytes all files of the workspace may have for a change to be let through; unset = any number."`
	HardLinks bool     `hcl:"hard_links,optional" doc:"Let files through that have several names, some perhaps outside."`
}

func defaults() settings {
	return settings{ReadMaxChars: 64_000, MaxFile: 8 << 20, Versions: 20, History: 256 << 20}
}

var spaceName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

func validate(_ context.Context, s *settings) sdk.Diagnostics {
	var d sdk.Diagnostics
	seen := map[string]bool{}
	for i, w := range s.Workspaces {
		at := sdk.Block("workspace", i)
		switch {
		case !spaceName.MatchString(w.Name):
			d.Errorf(at, "a workspace is named by lower-case letters, digits, - and _, at most 32; %q is not", w.Name)
		case seen[w.Name]:
			d.Errorf(at, "there are two workspaces %q", w.Name)
		}
		seen[w.Name] = true
		if w.Path == "" || filepath.Clean(w.Path) == string(filepath.Separator) {
			d.Errorf(at.Attr("path"), "a folder is wanted here, and not the root of the machine")
		}
		if w.Quota < 0 {
			d.Errorf(at.Attr("quota"), "a size above zero is wanted here")
		}
	}
	if s.ReadMaxChars < 1000 || s.ReadMaxChars > 1_000_000 {
		d.Errorf(sdk.Attr("read_max_chars"), "a number from 1,000 to 1,000,000 is wanted here, not %d", s.ReadMaxChars)
	}
	if s.MaxFile < 1<<10 || s.MaxFile > 256<<20 {
		d.Errorf(sdk.Attr("max_file"), "a size from 1KiB to 256MiB is wanted here, not %s", s.MaxFile)
	}
	if s.Versions < 1 || s.Versions > 1000 {
		d.Errorf(sdk.Attr("history_versions"), "a number from 1 to 1,000 is wanted here, not %d", s.Versions)
	}
	if s.History < s.MaxFile {
		d.Errorf(sdk.Attr("history_size"), "at least max_file (%s) is wanted here, so that a version of any file has room", s.MaxFile)
	}
	return d
}
