// Package wheels keeps Python packages that scripts ask for: each set of requirements
// is installed once, from wheels in a folder or an index of the operator's, by a script
// that runs behind the same walls as any other, and is then handed to scripts read-only.
package wheels

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/scripts/run"
)

//go:embed install.py
var install string

const (
	mostPackages = 20
	longestName  = 100
	installTime  = 3 * time.Minute
	// What a set may have once it is installed.
	mostFiles = 20_000
	mostBytes = 512 << 20
	// keptSets is how many sets are kept, and usedLately how long one is kept in any
	// case after it was used: a script may still read it.
	keptSets   = 20
	usedLately = time.Hour
)

// requirement is a name and versions, as PEP 508 has them, without addresses, markers
// and options.
var requirement = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[A-Za-z0-9._-]+(?:,[A-Za-z0-9._-]+)*\])?(?:(?:==|!=|>=|<=|~=|>|<)[A-Za-z0-9.*+!_-]+(?:,(?:==|!=|>=|<=|~=|>|<)[A-Za-z0-9.*+!_-]+)*)?$`)

// around are the blanks beside what stands between a name and versions.
var around = regexp.MustCompile(` *(==|!=|>=|<=|~=|>|<|,) *`)

// Check says what is wrong with requirements, and gives them in their one spelling.
func Check(names []string) ([]string, error) {
	if len(names) > mostPackages {
		return nil, fmt.Errorf("at most %d packages are taken, not %d", mostPackages, len(names))
	}
	var out []string
	for _, n := range names {
		n = around.ReplaceAllString(strings.Trim(n, " "), "$1")
		if len(n) > longestName || !requirement.MatchString(n) {
			return nil, fmt.Errorf("%.120q is no package with versions, such as numpy or pandas>=2,<3; addresses and options are not taken", n)
		}
		out = append(out, strings.ToLower(n))
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Refused is what pip says when it can't install something.
type Refused struct{ Said string }

func (r *Refused) Error() string { return r.Said }

// Store keeps what is installed in Dir, from wheels in House and of Index; one of these
// may be absent.
type Store struct {
	Dir, House string
	Index      *Index
	For        string // the interpreter whose packages they are: another one has others
	Runner     run.Runner

	mu   sync.Mutex
	busy map[string]chan struct{} // being installed; closed at the end
}

// Get gives the folder of a set of requirements that Check has let through, installing
// it first if need be.
func (s *Store) Get(ctx context.Context, names []string) (string, error) {
	key, err := s.key(names)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(s.Dir, key)
	for {
		s.mu.Lock()
		if _, err := os.Stat(dir); err == nil {
			s.mu.Unlock()
			now := time.Now()
			return dir, os.Chtimes(dir, now, now)
		}
		wait, busy := s.busy[key]
		if !busy {
			if s.busy == nil {
				s.busy = map[string]chan struct{}{}
			}
			s.busy[key] = make(chan struct{})
		}
		s.mu.Unlock()
		if !busy {
			break
		}
		select {
		case <-wait: // it is there now, or could not be installed
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	defer func() {
		s.mu.Lock()
		close(s.busy[key])
		delete(s.busy, key)
		s.mu.Unlock()
	}()
	s.forget()
	return dir, s.install(ctx, names, dir)
}

// key is the name of a set: what is asked for, by which interpreter, and what wheels
// there are.
func (s *Store) key(names []string) (string, error) {
	h := sha256.New()
	for _, n := range names {
		fmt.Fprintf(h, "%s\n", n)
	}
	fmt.Fprintf(h, "%q\n", s.For)
	if s.Index != nil {
		fmt.Fprintf(h, "%s\n", s.Index.URL)
	}
	var wheels []fs.DirEntry
	if s.House != "" {
		var err error
		if wheels, err = os.ReadDir(s.House); err != nil {
			return "", fmt.Errorf("the folder of wheels: %w", err)
		}
	}
	for _, w := range wheels {
		if info, err := w.Info(); err == nil && strings.HasSuffix(w.Name(), ".whl") {
			fmt.Fprintf(h, "%s %d %d\n", w.Name(), info.Size(), info.ModTime().UnixNano())
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:32], nil
}

// install has pip install into /out of a sandbox, and keeps what comes out of it.
func (s *Store) install(ctx context.Context, names []string, dir string) (err error) {
	spec := run.Spec{Language: run.Python, Script: []byte(install), Timeout: installTime, Wheels: s.House, OutFiles: mostFiles, OutBytes: mostBytes}
	job := struct {
		Names []string `json:"names"`
		Index string   `json:"index"`
	}{Names: names}
	if s.Index != nil {
		r, err := s.Index.open(ctx)
		if err != nil {
			return err
		}
		defer r.close()
		job.Index, spec.Index = s.Index.URL.String(), r.socket()
	}
	if spec.Input, err = json.Marshal(job); err != nil {
		return err
	}
	got, err := s.Runner.Run(ctx, spec)
	switch {
	case err != nil:
		return err
	case got.Cause != run.Exited:
		return &Refused{fmt.Sprintf("pip was ended: %s", got.Cause)}
	case got.Exit != 0:
		return &Refused{words(string(got.Stderr) + string(got.Stdout))}
	case got.FilesLost != "":
		return &Refused{"the packages are too large: " + got.FilesLost}
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(s.Dir, ".part-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp) // nothing is there when all went well
	root, err := os.OpenRoot(temp)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range got.Files {
		name, ok := strings.CutPrefix(f.Name, "site/")
		if !ok {
			continue
		}
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		if err := root.WriteFile(name, f.Data, 0o644); err != nil {
			return err
		}
	}
	if err := os.Chmod(temp, 0o755); err != nil { // scripts are another user
		return err
	}
	if err := os.Rename(temp, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// words are the lines of pip's that say what is wrong.
func words(said string) string {
	var lines []string
	for line := range strings.Lines(said) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "ERROR: "); ok {
			lines = append(lines, text)
		}
	}
	if len(lines) == 0 {
		lines = []string{strings.TrimSpace(said)}
	}
	text := strings.Join(lines, "; ")
	return strings.ToValidUTF8(text[:min(len(text), 600)], "")
}

// forget removes the sets that were used longest ago, and what was left half done.
func (s *Store) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return // nothing is there
	}
	type set struct {
		name string
		used time.Time
	}
	var all []set
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < usedLately {
			continue
		}
		all = append(all, set{e.Name(), info.ModTime()})
	}
	slices.SortFunc(all, func(a, b set) int { return b.used.Compare(a.used) })
	for i, old := range all {
		if i >= keptSets || strings.HasPrefix(old.name, ".part-") {
			_ = os.RemoveAll(filepath.Join(s.Dir, old.name)) // it is tried again next time
		}
	}
}
