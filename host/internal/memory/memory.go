package memory

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

// What applies when Options are silent.
const (
	DefaultBudget     = 256 << 20 // bytes, files included
	DefaultMaxEntries = 50        // a namespace, chunks not counted
	DefaultSpillOver  = 64 << 10  // bytes from which on a value goes to a file
	DefaultTTL        = 5 * time.Minute
	MaxTTL            = 7 * 24 * time.Hour
	MaxValue          = 64 << 20
	maxKey            = 512  // bytes of a whole key
	maxTags           = 32   // a value
	maxNamespaces     = 5000 // with anything in them
	sweepEvery        = time.Minute
)

// Options shape a Memory.
type Options struct {
	Budget     int64
	MaxEntries int
	SpillDir   string // empty = everything stays in RAM; the folder is the memory's own and emptied
	SpillOver  int
	Now        func() time.Time
}

// Memory is safe for concurrent use.
type Memory struct {
	o    Options
	quit chan struct{}
	done chan struct{}

	mu     sync.Mutex
	used   int64
	spaces map[string]*space
	nextID uint64
	closed bool
}

type space struct {
	entries map[string]*entry // by key without the namespace
	plain   int               // entries that count against MaxEntries
}

type entry struct {
	key      string
	value    []byte // nil when spilled
	file     string // path of a spilled value
	head     string // beginning of the value, for previews
	size     int64  // bytes of the value
	weight   int64  // bytes against the budget
	category string
	tags     []string
	created  time.Time
	expires  time.Time
	order    uint64 // of writing
	chunk    bool
}

// overhead is what an entry costs beside its value.
const overhead = 256

// New makes an empty memory and starts its sweeper; Close ends it.
func New(o Options) (*Memory, error) {
	if o.Budget <= 0 {
		o.Budget = DefaultBudget
	}
	if o.MaxEntries <= 0 {
		o.MaxEntries = DefaultMaxEntries
	}
	if o.SpillOver <= 0 {
		o.SpillOver = DefaultSpillOver
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.SpillDir != "" {
		if err := emptyDir(o.SpillDir); err != nil {
			return nil, fault.New(fault.StoreFull, "the folder for working memory %s can't be made ready: %w", o.SpillDir, err)
		}
	}
	m := &Memory{o: o, spaces: map[string]*space{}, quit: make(chan struct{}), done: make(chan struct{})}
	go m.sweeper()
	return m, nil
}

// emptyDir removes what an earlier process spilled; nothing of it can be found
// any more.
func emptyDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(dir, "value-*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range old {
		errs = append(errs, os.Remove(f))
	}
	return errors.Join(errs...)
}

// Close forgets everything and removes the files.
func (m *Memory) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	close(m.quit)
	for name := range m.spaces {
		m.drop(name)
	}
	m.mu.Unlock()
	<-m.done
	return nil
}

func (m *Memory) sweeper() {
	defer close(m.done)
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			m.mu.Lock()
			m.sweep()
			m.mu.Unlock()
		case <-m.quit:
			return
		}
	}
}

// sweep removes what has expired. The lock is held.
func (m *Memory) sweep() {
	now := m.o.Now()
	for name, sp := range m.spaces {
		for _, e := range sp.entries {
			if !now.Before(e.expires) {
				m.remove(name, e)
			}
		}
	}
}

// Item is a value to be put aside. Value is kept; the caller leaves it alone.
type Item struct {
	Key      string // without a namespace
	Value    []byte
	TTL      time.Duration // 0 = DefaultTTL, at most MaxTTL
	Category string
	Tags     []string
}

// Put stores a value under a namespace and gives its absolute key. An earlier
// value under the key is replaced.
func (m *Memory) Put(namespace, key string, value []byte, ttl time.Duration, category string, tags []string) (string, error) {
	return m.put(namespace, Item{Key: key, Value: value, TTL: ttl, Category: category, Tags: tags}, false)
}

func (m *Memory) put(namespace string, item Item, chunk bool) (string, error) {
	if err := checkNamespace(namespace); err != nil {
		return "", err
	}
	key, err := relative(namespace, item.Key)
	if err != nil {
		return "", err
	}
	abs := namespace + "/" + key
	switch {
	case len(abs) > maxKey:
		return "", fault.New(fault.BadArguments, "the key has %d bytes, at most %d", len(abs), maxKey)
	case len(item.Value) > MaxValue:
		return "", fault.New(fault.MemoryFull, "%q was not saved: it has %d bytes, at most %d", abs, len(item.Value), MaxValue)
	case len(item.Tags) > maxTags:
		return "", fault.New(fault.BadArguments, "%d tags are too many, at most %d", len(item.Tags), maxTags)
	}
	ttl := item.TTL
	if ttl <= 0 {
		ttl = DefaultTTL
	}
	ttl = min(ttl, MaxTTL)

	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return "", fault.New(fault.HostStopping, "%q was not saved: the host is stopping", abs)
	}
	m.nextID++
	now := m.o.Now()
	e := &entry{
		key: key, value: item.Value, head: head(item.Value), size: int64(len(item.Value)),
		category: item.Category, tags: slices.Clone(item.Tags),
		created: now, expires: now.Add(ttl), order: m.nextID, chunk: chunk,
	}
	e.weight = e.size + int64(len(abs)+len(e.head)+len(e.category)) + overhead
	for _, t := range e.tags {
		e.weight += int64(len(t))
	}
	m.mu.Unlock()

	// The file is written before the lock is taken again; if there turns out to
	// be no room, it is removed.
	if m.o.SpillDir != "" && len(item.Value) > m.o.SpillOver {
		if e.file, err = m.spill(e.order, item.Value); err != nil {
			return "", fault.New(fault.MemoryFull, "%q was not saved: its file can't be written: %w", abs, err)
		}
		e.value = nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.insert(namespace, abs, e); err != nil {
		if e.file != "" {
			os.Remove(e.file)
		}
		return "", err
	}
	return abs, nil
}

// insert admits an entry. The lock is held.
func (m *Memory) insert(namespace, abs string, e *entry) error {
	if m.closed {
		return fault.New(fault.HostStopping, "%q was not saved: the host is stopping", abs)
	}
	sp := m.spaces[namespace]
	if sp == nil {
		if len(m.spaces) >= maxNamespaces {
			if m.sweep(); len(m.spaces) >= maxNamespaces {
				return fault.New(fault.MemoryFull, "%q was not saved: working memory holds values of %d namespaces already", abs, maxNamespaces)
			}
		}
		sp = &space{entries: map[string]*entry{}}
	}
	old := sp.entries[e.key]
	var freed int64
	counted := sp.plain
	if old != nil {
		freed = old.weight
		if !old.chunk {
			counted--
		}
	}
	if !e.chunk && counted >= m.o.MaxEntries {
		m.sweep()
		if counted = sp.plain; sp.entries[e.key] != nil && !sp.entries[e.key].chunk {
			counted--
		}
		if counted >= m.o.MaxEntries {
			return fault.New(fault.MemoryFull, "%q was not saved: %s holds %d values, which is all it may; delete one first", abs, namespace, m.o.MaxEntries)
		}
		freed = 0
		if old = sp.entries[e.key]; old != nil {
			freed = old.weight
		}
	}
	if m.used-freed+e.weight > m.o.Budget {
		m.sweep()
		freed = 0
		if old = sp.entries[e.key]; old != nil {
			freed = old.weight
		}
		if m.used-freed+e.weight > m.o.Budget {
			return fault.New(fault.MemoryFull, "%q was not saved: it needs %d bytes and working memory has %d left of %d; delete what is no longer needed", abs, e.weight, max(0, m.o.Budget-m.used+freed), m.o.Budget)
		}
	}
	if old != nil {
		m.remove(namespace, old)
	}
	m.spaces[namespace] = sp // removing its last entry may have taken it out
	sp.entries[e.key] = e
	if !e.chunk {
		sp.plain++
	}
	m.used += e.weight
	return nil
}

// remove takes an entry out. The lock is held.
func (m *Memory) remove(namespace string, e *entry) {
	sp := m.spaces[namespace]
	if sp == nil || sp.entries[e.key] != e {
		return
	}
	delete(sp.entries, e.key)
	if !e.chunk {
		sp.plain--
	}
	m.used -= e.weight
	if e.file != "" {
		os.Remove(e.file) // what stays behind is removed at the next start
	}
	if len(sp.entries) == 0 {
		delete(m.spaces, namespace)
	}
}

func (m *Memory) drop(namespace string) {
	if sp := m.spaces[namespace]; sp != nil {
		for _, e := range sp.entries {
			m.remove(namespace, e)
		}
	}
}

// DropNamespace forgets all values of a namespace.
func (m *Memory) DropNamespace(namespace string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(namespace)
}

// Used is how many bytes of the budget are taken.
func (m *Memory) Used() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// Get reads length bytes from offset on (0 = to the end), cut at rune
// boundaries when the value is text. A key without a known namespace stands in
// the caller's own; another namespace is reached only when allow says so.
func (m *Memory) Get(namespace, key string, offset, length int64, allow func(namespace string) bool) (value []byte, total int64, found bool, err error) {
	m.mu.Lock()
	e, _, err := m.find(namespace, key, allow)
	if err != nil || e == nil {
		m.mu.Unlock()
		return nil, 0, false, err
	}
	value, file, total := e.value, e.file, e.size
	var f *os.File
	if file != "" {
		f, err = os.Open(file) // opened under the lock, for it may be removed after
	}
	m.mu.Unlock()
	if err != nil {
		return nil, 0, false, fault.New(fault.KeyNotFound, "the value under %q can't be read: %w", key, err)
	}
	if f != nil {
		defer f.Close()
		value, err = readRange(f, total, offset, length)
		if err != nil {
			return nil, 0, false, fault.New(fault.KeyNotFound, "the value under %q can't be read: %w", key, err)
		}
		return value, total, true, nil
	}
	return slices.Clone(cutRange(value, offset, length)), total, true, nil
}

// Delete removes a value and tells whether it was there.
func (m *Memory) Delete(namespace, key string, allow func(namespace string) bool) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ns, err := m.find(namespace, key, allow)
	if err != nil || e == nil {
		return false, err
	}
	m.remove(ns, e)
	return true, nil
}

// find resolves a key. The lock is held.
func (m *Memory) find(namespace, key string, allow func(string) bool) (*entry, string, error) {
	ns, rel, err := m.resolve(namespace, key, allow)
	if err != nil {
		return nil, "", err
	}
	sp := m.spaces[ns]
	if sp == nil {
		return nil, ns, nil
	}
	e := sp.entries[rel]
	if e != nil && !m.o.Now().Before(e.expires) {
		m.remove(ns, e)
		e = nil
	}
	return e, ns, nil
}

// resolve splits a key into namespace and rest. A namespace is the first two
// segments; a key of one segment, or one that does not begin with a kind of
// namespace, is relative.
func (m *Memory) resolve(namespace, key string, allow func(string) bool) (ns, rel string, err error) {
	if err := checkNamespace(namespace); err != nil {
		return "", "", err
	}
	if rest, own := strings.CutPrefix(key, namespace+"/"); own && rest != "" {
		return namespace, rest, nil
	}
	if other, rest, absolute := Split(key); absolute {
		if allow != nil && allow(other) {
			return other, rest, nil
		}
		return "", "", fault.New(fault.KeyNotFound, "%q is outside %s", key, namespace)
	}
	return namespace, key, nil
}

// kinds of namespaces, by their first segment.
var kinds = []string{"session", "subagent", "patrol", "wisp"}

// Split takes an absolute key apart. absolute is false for a key that names no
// namespace.
func Split(key string) (namespace, rest string, absolute bool) {
	kind, tail, ok := strings.Cut(key, "/")
	if !ok || !slices.Contains(kinds, kind) {
		return "", "", false
	}
	id, rest, ok := strings.Cut(tail, "/")
	if !ok || id == "" || rest == "" {
		return "", "", false
	}
	return kind + "/" + id, rest, true
}

func checkNamespace(ns string) error {
	kind, id, ok := strings.Cut(ns, "/")
	if !ok || kind == "" || id == "" || strings.Contains(id, "/") || len(ns) > 256 || !utf8.ValidString(ns) {
		return fault.New(fault.UnknownSession, "working memory needs a session")
	}
	return nil
}

// relative checks a key that is to be written; the caller's own namespace may
// stand before it, no other.
func relative(namespace, key string) (string, error) {
	if rest, own := strings.CutPrefix(key, namespace+"/"); own {
		key = rest
	} else if _, _, absolute := Split(key); absolute {
		return "", fault.New(fault.KeyNotFound, "%q is outside %s; values are saved in one's own namespace only", key, namespace)
	}
	if key == "" || !utf8.ValidString(key) || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", fault.New(fault.BadArguments, "a key is text without control characters")
	}
	return key, nil
}

// Usage describes a namespace for people: how many values of how many.
func (m *Memory) Usage(namespace string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	if sp := m.spaces[namespace]; sp != nil {
		n = sp.plain
	}
	return fmt.Sprintf("%d of %d values", n, m.o.MaxEntries)
}
