package search

import (
	"context"
	"errors"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
)

const (
	batch      = 64     // files of a folder that one worker takes at a time
	maxDepth   = 256    // folders inside each other
	maxMatches = 10_000 // that are kept while searching; beyond they are counted
	maxContext = 20
)

// errLinked is a file that may have names outside of the tree.
var errLinked = errors.New("the file has several names")

// Query is what is looked for.
type Query struct {
	Pattern       string   // RE2, or plain text with Literal
	Literal       bool     // the pattern is plain text
	IgnoreCase    bool     //
	Globs         []string // files to look in; with ! files to leave out
	Hidden        bool     // also where a name begins with a dot
	All           bool     // also what ignore files leave out
	Linked        bool     // also files with several names, some of which may lie elsewhere
	Before, After int      // lines around a match
}

// Match is a line that holds what was looked for.
type Match struct {
	Path          string // from the root of the tree on
	Line          int    // from 1
	Column        int    // bytes before the match, plus 1
	Text          string // the line, or the part around the match of a long one
	Before, After []string
}

// Result is what was found. Matches are in the order of paths and lines.
type Result struct {
	Matches  []Match
	Total    int // matching lines
	Files    int // with a match
	Searched int // files looked into
	Binary   int // files that are no text
	Linked   int // files left out for their several names
	Failed   int // files and folders that can't be read
}

// Search looks in the folder or file under of a tree, until ctx ends. An error is a
// mistake in the query or under, or the end of ctx.
func Search(ctx context.Context, root *os.Root, under string, q Query) (Result, error) {
	s, err := newSearch(ctx, q)
	if err != nil {
		return Result{}, err
	}
	info, err := root.Stat(under)
	if err != nil {
		return Result{}, err
	}
	if !info.IsDir() {
		dir, err := openRoot(root, path.Dir(under))
		if err != nil {
			return Result{}, err
		}
		s.add(item{dir: dir, at: path.Dir(under), files: []string{path.Base(under)}})
	} else {
		dir, err := openRoot(root, under)
		if err != nil {
			return Result{}, err
		}
		var above *ignores
		if !q.All {
			above = ignoredAbove(root, under)
		}
		s.add(item{dir: dir, at: under, ignores: above, list: true})
	}
	defer useAllProcessors()()
	var all sync.WaitGroup
	for range max(2, runtime.GOMAXPROCS(0)) {
		all.Go(s.work)
	}
	all.Wait()
	slices.SortFunc(s.result.Matches, func(a, b Match) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return a.Line - b.Line
	})
	return s.result, context.Cause(ctx)
}

// ignoredAbove are the rules of the folders that under lies in.
func ignoredAbove(root *os.Root, under string) (g *ignores) {
	if under == "." {
		return nil
	}
	at := "."
	for _, part := range strings.Split(under, "/") {
		if dir, err := openRoot(root, at); err == nil {
			g = dir.ignores(g, at)
			dir.release()
		}
		at = path.Join(at, part)
	}
	return g
}

// ignores reads the folder's ignore files.
func (d *folder) ignores(up *ignores, at string) *ignores {
	g := up
	for _, name := range ignoreFiles {
		f, size, err := d.open(name, true)
		if err != nil || size > maxIgnoreFile {
			if err == nil {
				f.Close()
			}
			continue
		}
		raw := make([]byte, size)
		n, err := readFull(f, raw, size)
		f.Close()
		if err == nil {
			g = newIgnores(g, at, raw[:n])
		}
	}
	return g
}

// item is something to do: a folder to list, or files of it to look into.
type item struct {
	dir     *folder // held
	name    string  // of a folder in dir that is to be listed; "" = dir itself
	at      string  // its path, or that of dir when files are to be looked into
	depth   int
	list    bool
	files   []string
	ignores *ignores
}

// search is one search that goes on.
type search struct {
	q     Query
	m     *matcher
	globs globs
	ctx   context.Context

	mu     sync.Mutex
	ready  sync.Cond
	todo   []item // a stack, so that few folders are open at a time
	busy   int
	result Result
}

func newSearch(ctx context.Context, q Query) (*search, error) {
	m, err := newMatcher(q.Pattern, q.Literal, q.IgnoreCase)
	if err != nil {
		return nil, err
	}
	g, err := newGlobs(q.Globs)
	if err != nil {
		return nil, err
	}
	q.Before, q.After = min(max(q.Before, 0), maxContext), min(max(q.After, 0), maxContext)
	s := &search{q: q, m: m, globs: g, ctx: ctx}
	s.ready.L = &s.mu
	return s, nil
}

func (s *search) add(items ...item) {
	s.mu.Lock()
	s.todo = append(s.todo, items...)
	s.mu.Unlock()
	if len(items) > 1 {
		s.ready.Broadcast()
	} else {
		s.ready.Signal()
	}
}

// work takes items until none is left and nobody makes more.
func (s *search) work() {
	w := &worker{search: s}
	for {
		s.mu.Lock()
		for len(s.todo) == 0 && s.busy > 0 {
			s.ready.Wait()
		}
		n := len(s.todo)
		if n == 0 {
			s.mu.Unlock()
			s.ready.Broadcast()
			s.merge(&w.found)
			return
		}
		it := s.todo[n-1]
		s.todo[n-1] = item{}
		s.todo = s.todo[:n-1]
		s.busy++
		s.mu.Unlock()
		if s.ctx.Err() == nil {
			w.do(it)
		}
		it.dir.release()
		s.mu.Lock()
		if s.busy--; s.busy == 0 && len(s.todo) == 0 {
			s.ready.Broadcast()
		}
		s.mu.Unlock()
	}
}

func (s *search) merge(r *Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	room := max(maxMatches-len(s.result.Matches), 0)
	s.result.Matches = append(s.result.Matches, r.Matches[:min(room, len(r.Matches))]...)
	s.result.Total += r.Total
	s.result.Files += r.Files
	s.result.Searched += r.Searched
	s.result.Binary += r.Binary
	s.result.Linked += r.Linked
	s.result.Failed += r.Failed
}

func (w *worker) do(it item) {
	if !it.list {
		for _, name := range it.files {
			if w.ctx.Err() != nil {
				return
			}
			w.file(it.dir, name, join(it.at, name))
		}
		return
	}
	dir := it.dir
	if it.name != "" {
		var err error
		if dir, err = it.dir.sub(it.name); err != nil {
			w.found.Failed++
			return
		}
		defer dir.release()
	}
	files, dirs, err := dir.entries()
	if err != nil {
		w.found.Failed++
	}
	rules := it.ignores
	if !w.q.All && slices.ContainsFunc(files, func(f string) bool { return slices.Contains(ignoreFiles, f) }) {
		rules = dir.ignores(rules, it.at)
	}
	var items []item
	wanted := files[:0]
	for _, name := range files {
		if p := join(it.at, name); w.takes(name, p, false, rules) && w.globs.takes(p) {
			wanted = append(wanted, name)
		}
	}
	for part := range slices.Chunk(wanted, batch) {
		dir.hold()
		items = append(items, item{dir: dir, at: it.at, files: part})
	}
	for _, name := range dirs {
		p := join(it.at, name)
		if it.depth >= maxDepth {
			w.found.Failed++
			continue
		}
		if name != ".git" && w.takes(name, p, true, rules) {
			dir.hold()
			items = append(items, item{dir: dir, name: name, at: p, depth: it.depth + 1, list: true, ignores: rules})
		}
	}
	w.add(items...)
}

func (w *worker) takes(name, p string, folder bool, rules *ignores) bool {
	return (w.q.Hidden || name[0] != '.') && !rules.leaveOut(p, folder)
}

func join(at, name string) string {
	if at == "." {
		return name
	}
	return at + "/" + name
}

var processors struct {
	sync.Mutex
	users, before int
}

// useAllProcessors lets this process have them all while a search runs; a plugin
// has half of them otherwise.
func useAllProcessors() (done func()) {
	p := &processors
	p.Lock()
	defer p.Unlock()
	if p.users++; p.users == 1 {
		p.before = runtime.GOMAXPROCS(0)
		if os.Getenv("GOMAXPROCS") == "" {
			runtime.GOMAXPROCS(runtime.NumCPU())
		}
	}
	return func() {
		p.Lock()
		defer p.Unlock()
		if p.users--; p.users == 0 {
			runtime.GOMAXPROCS(p.before)
		}
	}
}
