package bridge

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/tidwall/sjson"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/settings"
	"github.com/bulkhead-dev/bulkhead/plugins/mcp/splice"
	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/regular"
)

const (
	maxMCPJSON   = 4 << 20
	mcpJSONPoll  = 5 * time.Second // for file systems that tell nothing
	mcpJSONQuiet = 500 * time.Millisecond
)

// jsonFile is the mcp.json of the settings: read at the start and after each
// change, and written when agents add or remove servers.
type jsonFile struct {
	b    *Bridge
	path string

	mu      sync.Mutex // held while the file is read or written; never while waiting for the bridge's changing
	stamp   stamp
	servers []settings.FromJSON
	fault   atomic.Pointer[string] // why what is there is not in force; nil = it is
	stop    chan struct{}
	done    chan struct{}
	once    sync.Once
}

// stamp tells a file's states apart.
type stamp struct {
	at   time.Time
	size int64
}

func newJSONFile(b *Bridge, path string) *jsonFile {
	return &jsonFile{b: b, path: path, stop: make(chan struct{}), done: make(chan struct{})}
}

// lookup gives what ${NAME} may stand for: the plugin's own environment, without
// what host and plugin tell each other there.
func lookup(name string) (string, bool) {
	for _, p := range []string{"BULKHEAD_", "PLUGIN_", "ROCKBOT_"} {
		if strings.HasPrefix(strings.ToUpper(name), p) {
			return "", false
		}
	}
	return os.LookupEnv(name)
}

// load reads the file; f.mu is held. It reports whether the servers are others now.
// A file that can't be read, or can't be what was meant, gives way to its backup,
// and without one to what was in force.
func (f *jsonFile) load(conf *settings.Settings) bool {
	log := f.b.plugin.Logger().With("file", f.path)
	f.stamp = stampOf(f.path) // before reading: an edit meanwhile is then noticed
	servers, notes, err := f.read(f.path, conf)
	if errors.Is(err, fs.ErrNotExist) {
		servers, err = nil, nil
	}
	f.fault.Store(nil)
	if err != nil {
		why := fmt.Sprintf("%s is not in force: %v", f.path, err)
		f.fault.Store(&why)
		log.Error("mcp.json is not in force", "reason", err)
		if servers, notes, err = f.read(f.path+".bak", conf); err != nil || len(servers) == 0 {
			return false
		}
		why += "; " + f.path + ".bak is used in its place"
	}
	for _, n := range notes {
		log.Warn(n)
	}
	f.servers = servers
	return true
}

func (f *jsonFile) problem() string {
	if p := f.fault.Load(); p != nil {
		return *p
	}
	return ""
}

func (f *jsonFile) read(path string, conf *settings.Settings) ([]settings.FromJSON, []string, error) {
	raw, err := readBounded(path)
	if err != nil {
		return nil, nil, err
	}
	return settings.ReadJSON(raw, lookup, conf)
}

func readBounded(path string) ([]byte, error) {
	raw, err := regular.Read(path, maxMCPJSON)
	if errors.Is(err, regular.ErrTooLong) {
		err = fmt.Errorf("it has more than %d bytes", maxMCPJSON)
	}
	return raw, err
}

func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{info.ModTime(), info.Size()}
}

// follow reads the file again whenever it changes, until ctx is done.
func (f *jsonFile) follow(ctx context.Context) {
	defer close(f.done)
	f.mu.Lock()
	f.identify()
	f.mu.Unlock()
	var events chan fsnotify.Event
	if w, err := fsnotify.NewWatcher(); err == nil {
		defer w.Close()
		// The folder: files are replaced by renaming others into their place.
		if w.Add(filepath.Dir(f.path)) == nil {
			events = w.Events
		}
	}
	poll := time.NewTicker(mcpJSONPoll)
	defer poll.Stop()
	var quiet <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.stop:
			return
		case e, ok := <-events:
			if !ok {
				events = nil
			} else if filepath.Clean(e.Name) == filepath.Clean(f.path) {
				quiet = time.After(mcpJSONQuiet)
			}
		case <-poll.C:
			f.mu.Lock()
			now := stampOf(f.path)
			moved := now != (stamp{}) && now != f.stamp
			f.mu.Unlock()
			if moved && quiet == nil {
				quiet = time.After(mcpJSONQuiet)
			}
		case <-quiet:
			quiet = nil
			f.reload()
		}
	}
}

// reload acts on the file as it is. One that is gone changes nothing.
func (f *jsonFile) reload() {
	if stampOf(f.path) == (stamp{}) {
		return
	}
	f.b.changing.Lock()
	defer f.b.changing.Unlock()
	conf := f.b.conf.Get()
	f.mu.Lock()
	fresh := f.load(conf)
	if fresh {
		f.identify()
	}
	f.mu.Unlock()
	if fresh {
		f.b.replace(conf, f.b.wanted(conf))
	}
}

// end stops following and waits for that.
func (f *jsonFile) end(following bool) {
	f.once.Do(func() { close(f.stop) })
	if following {
		<-f.done
	}
}

// identify gives entries without an id one, in the file as well; f.mu is held.
func (f *jsonFile) identify() {
	if f.problem() != "" || !slices.ContainsFunc(f.servers, func(s settings.FromJSON) bool { return s.ID == "" }) {
		return
	}
	err := f.change(func(raw []byte) ([]byte, error) {
		var err error
		for i := range f.servers {
			if s := &f.servers[i]; s.ID == "" && err == nil && hasEntry(raw, s.Name) {
				s.ID = newID()
				raw, err = sjson.SetBytes(raw, entryPath(raw, s.Name)+".id", s.ID)
			}
		}
		return raw, err
	})
	if err != nil {
		f.b.plugin.Logger().Warn("ids of servers are not written", "file", f.path, "error", err)
	}
}

func hasEntry(raw []byte, name string) bool {
	top, _ := splice.Object(raw)
	list, _ := top.Get("mcpServers")
	servers, _ := splice.Object(list)
	return slices.ContainsFunc(servers.All, func(m splice.Member) bool {
		_, object := splice.Object(m.Value)
		return m.Key == name && object
	})
}

func newID() string {
	var id [6]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// register adds a server's entry.
func (f *jsonFile) register(name, url string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := newID()
	err := f.change(func(raw []byte) ([]byte, error) {
		if len(strings.TrimSpace(string(raw))) == 0 {
			raw = []byte("{}")
		}
		return sjson.SetBytes(raw, entryPath(raw, name), map[string]string{"id": id, "origin": "agent", "type": "sse", "url": url})
	})
	if err == nil {
		f.servers = append(f.servers, settings.FromJSON{ID: id, Server: settings.Server{Name: name, URL: url, FromFile: true, Agents: true}})
	}
	return err
}

// unregister takes a server's entry out.
func (f *jsonFile) unregister(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.change(func(raw []byte) ([]byte, error) { return sjson.DeleteBytes(raw, entryPath(raw, name)) })
	if err == nil {
		f.servers = slices.DeleteFunc(f.servers, func(s settings.FromJSON) bool { return strings.EqualFold(s.Name, name) })
	}
	return err
}

// change rewrites the file: what edit does not touch stays byte for byte. The old
// text is kept as .bak, and the new one put in its place by renaming. A file that
// could not be read is never written over. f.mu is held.
func (f *jsonFile) change(edit func([]byte) ([]byte, error)) error {
	raw, err := readBounded(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		raw = nil
	case err != nil:
		return err
	default:
		if _, _, err := settings.ReadJSON(raw, lookup, f.b.conf.Get()); err != nil {
			return sdk.Errorf(sdk.Conflict, "%s is not written over, since it can't be what was meant: %w", f.path, err)
		}
	}
	fresh, err := edit(slices.Clone(raw))
	if err != nil {
		return err
	}
	if !json.Valid(fresh) {
		return errors.New("the edited file would not be JSON")
	}
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(f.path); err == nil {
		mode = info.Mode().Perm()
	}
	if raw != nil {
		if err := replaceFile(f.path+".bak", raw, mode); err != nil {
			return err
		}
	}
	if err := replaceFile(f.path, fresh, mode); err != nil {
		return err
	}
	f.stamp = stampOf(f.path)
	return nil
}

func replaceFile(path string, raw []byte, mode fs.FileMode) error {
	if err := os.WriteFile(path+".tmp", raw, mode); err != nil {
		return err
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		_ = os.Remove(path + ".tmp") // the rename's error is told
		return err
	}
	return nil
}

// entryPath is where a server's entry is, for sjson.
func entryPath(raw []byte, name string) string {
	key := "mcpServers"
	if top, ok := splice.Object(raw); ok {
		for _, m := range top.All {
			if strings.EqualFold(m.Key, key) {
				key = m.Key
			}
		}
	}
	return key + ".:" + stepName(name) // the colon: a key, even when it is a number
}

// stepName is a name as one step of an sjson path.
func stepName(name string) string {
	var out strings.Builder
	for _, r := range name {
		if strings.ContainsRune(`.*?|#@!{}[]()\:`, r) {
			out.WriteByte('\\')
		}
		out.WriteRune(r)
	}
	return out.String()
}
