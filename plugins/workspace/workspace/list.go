package workspace

import (
	"context"
	"encoding/json"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/bulkhead-dev/bulkhead/plugins/workspace/tree"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

const (
	mostListed = 2000
	mostWalked = 500_000
)

type listArgs struct {
	Path   string `json:"path,omitempty" doc:"Folder to list, or what the paths begin with; the first workspace without it."`
	Glob   string `json:"glob,omitempty" doc:"Only files whose path matches, such as **/*.md."`
	Hidden bool   `json:"hidden,omitempty" doc:"Also names that begin with a dot."`
}

func (f *files) listTool() *sdk.Tool {
	return sdk.NewTool("list_files", "Lists the files below a folder, in order, as a JSON array of paths.",
		f.list, sdk.WithTitle("List files"), sdk.WithTier(sdk.Standard), sdk.WithGroup("workspace"), sdk.WithSource("filesystem"),
		sdk.WithAliases("file_list"), sdk.WithArgumentAlias("prefix", "path"), sdk.ReadOnly())
}

func (f *files) list(ctx context.Context, _ *sdk.Call, in listArgs) (sdk.Result, error) {
	if in.Glob != "" && !doublestar.ValidatePattern(in.Glob) {
		return sdk.Result{}, sdk.Errorf(sdk.InvalidArguments, "the glob %q can't be read; **/*.md and src/*.go are examples", clip(in.Glob, 200))
	}
	p, done, err := f.place(in.Path)
	if err != nil {
		return sdk.Result{}, err
	}
	defer done()
	under, prefix := p.rel, ""
	info, err := p.Root().Stat(under)
	switch {
	case err == nil && !info.IsDir():
		return asList([]string{p.String()}, 1)
	case err != nil:
		// No folder: a path that begins so.
		under, prefix = path.Dir(p.rel), p.rel
	}
	var found []string
	total, walked := 0, 0
	err = fs.WalkDir(p.FS(), under, func(name string, d fs.DirEntry, err error) error {
		if walked++; walked > mostWalked || ctx.Err() != nil {
			return fs.SkipAll
		}
		if err != nil {
			return fs.SkipDir
		}
		if d.IsDir() {
			if name != under && (d.Name() == ".git" || !in.shows(d.Name(), prefix)) {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || !strings.HasPrefix(name, prefix) || !in.shows(d.Name(), prefix) || !in.matches(name, p.rel) {
			return nil
		}
		if total++; len(found) < mostListed {
			found = append(found, p.show(name))
		}
		return nil
	})
	if ctx.Err() != nil {
		return sdk.Result{}, ctx.Err()
	}
	if err != nil {
		return sdk.Result{}, p.failure(err)
	}
	slices.Sort(found)
	return asList(found, total)
}

// shows says whether a name is listed: hidden ones only when they are asked for.
func (in listArgs) shows(name, prefix string) bool {
	return name[0] != '.' || (!strings.HasPrefix(name, tree.TempPrefix) && (in.Hidden || (prefix != "" && path.Base(prefix)[0] == '.')))
}

func (in listArgs) matches(name, under string) bool {
	if in.Glob == "" {
		return true
	}
	if under != "." {
		name = strings.TrimPrefix(name, under+"/")
	}
	if !strings.Contains(in.Glob, "/") {
		name = path.Base(name)
	}
	ok, err := doublestar.Match(in.Glob, name)
	return ok && err == nil
}

// asList is the JSON array, and a line more when it is not all.
func asList(found []string, total int) (sdk.Result, error) {
	if found == nil {
		found = []string{}
	}
	raw, err := json.MarshalIndent(found, "", " ")
	if err != nil {
		return sdk.Result{}, err
	}
	r := sdk.TextResult(string(raw))
	if total > len(found) {
		r.Content = append(r.Content, sdk.Text(more(len(found), total)))
	}
	return r, nil
}
