package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/bulkhead-dev/bulkhead/plugins/workspace/history"
	"github.com/bulkhead-dev/bulkhead/plugins/workspace/tree"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// space is a folder agents work in.
type space struct {
	*tree.Tree
	name    string // "" = the shared folder
	prefix  string // what its paths begin with where they are shown
	quota   int64  // 0 = none
	history *history.Store
}

// spaces are the folders of one set of settings.
type spaces struct {
	all    []*space // the first is where plain paths lead
	shared *space   // nil without one
	users  atomic.Int32
}

func (s *spaces) hold() { s.users.Add(1) }

func (s *spaces) release() {
	if s.users.Add(-1) > 0 {
		return
	}
	for _, one := range s.all {
		one.Close()
		one.history.Close()
	}
}

func openSpaces(p *sdk.Plugin, conf *settings) (*spaces, error) {
	s := &spaces{}
	s.users.Store(1)
	facts := p.Facts()
	add := func(b block, prefix string) (*space, error) {
		t, err := tree.Open(b.Path, filepath.Join(facts.DataDir, "writing", "in-"+b.Name))
		if err != nil {
			return nil, sdk.Errorf(sdk.Unavailable, "the folder of %s can't be opened: %w", label(b.Name), err)
		}
		t.ReadOnly, t.Linked, t.MaxFile = b.ReadOnly, b.HardLinks, int64(conf.MaxFile)
		h, err := history.Open(filepath.Join(facts.DataDir, "history", "of-"+b.Name), conf.Versions, int64(conf.History))
		if err != nil {
			t.Close()
			return nil, sdk.Errorf(sdk.Unavailable, "the history of %s can't be opened: %w", label(b.Name), err)
		}
		one := &space{Tree: t, name: b.Name, prefix: prefix, quota: int64(b.Quota), history: h}
		s.all = append(s.all, one)
		return one, nil
	}
	for i, b := range conf.Workspaces {
		prefix := ""
		if i > 0 {
			prefix = b.Name + ":"
		}
		if _, err := add(b, prefix); err != nil {
			s.release()
			return nil, err
		}
	}
	if facts.SharedDir != "" {
		var err error
		if s.shared, err = add(block{Path: facts.SharedDir}, p.Shared().Folder()+"/"); err != nil {
			s.release()
			return nil, err
		}
	}
	return s, nil
}

func label(name string) string {
	if name == "" {
		return "the shared folder"
	}
	return fmt.Sprintf("workspace %q", name)
}

// place is a file or folder, which may not exist.
type place struct {
	*space
	rel string
}

// String is the path as it is shown, and as it may be given again.
func (p place) String() string { return p.show(p.rel) }

// show is how a path of the space is shown.
func (s *space) show(rel string) string {
	if rel == "." {
		rel = ""
	}
	return s.prefix + rel
}

// find reads a path: relative to the first workspace, NAME:… of another, /shared/…,
// or absolute inside one of them.
func (s *spaces) find(given string) (place, error) {
	one, rel := s.split(filepath.ToSlash(given))
	if one == nil {
		return place{}, sdk.Errorf(sdk.InvalidArguments, "%q is in no workspace; %s", clip(given, 200), s.hint())
	}
	rel, err := tree.Clean(rel)
	if err != nil {
		return place{}, sdk.Errorf(sdk.InvalidArguments, "%q: %v; %s", clip(given, 200), err, s.hint())
	}
	return place{one, rel}, nil
}

func (s *spaces) split(given string) (*space, string) {
	if s.shared != nil {
		if rest, ok := strings.CutPrefix(given+"/", s.shared.prefix); ok {
			return s.shared, strings.TrimSuffix(rest, "/")
		}
	}
	if strings.HasPrefix(given, "/") {
		for _, one := range s.all {
			if rest, ok := strings.CutPrefix(given+"/", strings.TrimSuffix(filepath.ToSlash(one.Dir), "/")+"/"); ok {
				return one, strings.TrimSuffix(rest, "/")
			}
		}
		return nil, ""
	}
	if name, rest, ok := strings.Cut(given, ":"); ok {
		for _, one := range s.all {
			if one.name == name && name != "" {
				return one, rest
			}
		}
	}
	if len(s.all) == 0 {
		return nil, ""
	}
	first := s.all[0]
	// What others put into the shared folder is known by these names too.
	if top, _, _ := strings.Cut(given, "/"); s.shared != nil && (top == "attachments" || top == "results") {
		if _, err := first.Root().Lstat(top); errors.Is(err, fs.ErrNotExist) {
			return s.shared, given
		}
	}
	return first, given
}

// hint says what paths there are.
func (s *spaces) hint() string {
	var forms []string
	for i, one := range s.all {
		switch {
		case one == s.shared:
			forms = append(forms, one.prefix+"…")
		case i == 0:
			forms = append(forms, fmt.Sprintf("a path relative to workspace %q", one.name))
		default:
			forms = append(forms, one.prefix+"…")
		}
	}
	if len(forms) == 0 {
		return "there is no workspace; the operator can add one"
	}
	return "name it as " + strings.Join(forms, ", or ")
}

// failure words what went wrong with a place.
func (p place) failure(err error) error {
	switch {
	case err == nil, own(err):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return sdk.Errorf(sdk.NotFound, "there is no %q%s", p, p.others())
	case errors.Is(err, tree.ErrTooLarge):
		return sdk.Errorf(sdk.TooLarge, "%q: %v", p, err)
	case errors.Is(err, tree.ErrReadOnly):
		return sdk.Errorf(sdk.Denied, "%q can't be changed: %s is read-only", p, label(p.name))
	case errors.Is(err, fs.ErrPermission):
		text := sdk.Errorf(sdk.Denied, "%q: the system lets nobody here touch it: %v", p, err)
		if strings.HasPrefix(p.rel, "attachments/") {
			text = sdk.Errorf(sdk.Denied, "%q can't be changed: attachments stay as they came; write a copy under %q", p, p.show("drafts/"+path.Base(p.rel)))
		}
		return text
	}
	return sdk.Errorf(sdk.InvalidArguments, "%q: %v", p, err)
}

const (
	mostOthers  = 5
	mostScanned = 50_000
)

// others names files of the same name elsewhere.
func (p place) others() string {
	var found []string
	scanned := 0
	base := path.Base(p.rel)
	err := fs.WalkDir(p.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if scanned++; scanned > mostScanned || len(found) == mostOthers {
			return fs.SkipAll
		}
		switch {
		case err != nil:
			return fs.SkipDir
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case d.Type().IsRegular() && strings.EqualFold(d.Name(), base):
			found = append(found, p.show(name))
		}
		return nil
	})
	if err != nil || len(found) == 0 {
		return ""
	}
	return "; of that name there is " + strings.Join(found, ", ")
}

// room says whether a workspace's quota lets a file grow by so many bytes.
func (p place) room(grow int64) error {
	if p.quota == 0 || grow <= 0 {
		return nil
	}
	var used int64
	err := fs.WalkDir(p.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				used += info.Size()
			}
		}
		return nil
	})
	if err == nil && used+grow > p.quota {
		err = sdk.Errorf(sdk.TooLarge, "%q: %s has %d of %d bytes in use; %d more do not fit", p, label(p.name), used, p.quota, grow)
	}
	return err
}

// count is how many there are of a thing.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
