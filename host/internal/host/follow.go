package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/bulkhead-dev/bulkhead/host/internal/config"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

const (
	settleTime = 300 * time.Millisecond // without a change before one is taken up
	settleMost = 2 * time.Second        // that changes without an end put it off
)

// follow watches what the host runs by: the config file, the plugins folder and the
// binaries, wherever links lead to.
type follow struct {
	host    *Host
	watcher *fsnotify.Watcher
	dirs    map[string]*watched // by path
	failed  map[string]bool     // folders that could not be watched, as told
	gone    bool                // the config file is, and that was told
}

// watched is a folder and what of it matters.
type watched struct {
	info   os.FileInfo     // of the folder that is watched
	text   map[string]bool // entries the config file depends on
	folder map[string]bool // entries the plugins depend on
	all    bool            // every entry is a plugin
}

// watch follows changes until the host closes.
func (h *Host) watch() {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		h.log.Warn("changes of the plugins folder and the config are not followed", "error", err)
		return
	}
	f := &follow{host: h, watcher: w, dirs: map[string]*watched{}, failed: map[string]bool{}}
	f.renew()
	h.watcher.Go(func() {
		defer w.Close()
		f.run()
	})
}

// moved says that there may be other things to follow.
func (h *Host) moved() {
	select {
	case h.again <- struct{}{}:
	default:
	}
}

// file is the config file's absolute path, empty when there is none.
func (h *Host) file() string {
	cfg := h.cfg()
	if cfg.File == "" {
		return ""
	}
	return filepath.Join(cfg.Dir, filepath.Base(cfg.File))
}

// renew brings the watched folders up to date: a link may lead elsewhere, a folder
// may be another under its old name.
func (f *follow) renew() {
	h := f.host
	want := map[string]*watched{}
	at := func(dir string) *watched {
		if want[dir] == nil {
			want[dir] = &watched{text: map[string]bool{}, folder: map[string]bool{}}
		}
		return want[dir]
	}
	if file := h.file(); file != "" {
		for _, p := range places(file) {
			at(p.dir).text[p.name] = true
		}
	}
	plugins := h.cfg().Host.PluginDir
	for _, p := range places(plugins) {
		at(p.dir).folder[p.name] = true
	}
	if real, err := filepath.EvalSymlinks(plugins); err == nil {
		at(real).all = true
	}
	for _, binary := range h.binaries() {
		for _, p := range places(binary) {
			at(p.dir).folder[p.name] = true
		}
	}
	for dir, was := range f.dirs {
		if now := want[dir]; now != nil {
			now.info, _ = os.Stat(dir)
			if now.info != nil && os.SameFile(was.info, now.info) {
				continue
			}
		}
		_ = f.watcher.Remove(dir) // it may be gone already
		delete(f.dirs, dir)
	}
	for dir, now := range want {
		if f.dirs[dir] == nil {
			if err := f.watcher.Add(dir); err != nil {
				if !errors.Is(err, os.ErrNotExist) && !f.failed[dir] {
					f.failed[dir] = true
					h.log.Warn("changes are not followed", "folder", dir, "error", err)
				}
				continue
			}
			now.info, _ = os.Stat(dir) // one that went again shows as another one
		}
		f.dirs[dir] = now
	}
}

// binaries are the plugins' executables.
func (h *Host) binaries() (out []string) {
	cfg := h.cfg()
	for _, p := range cfg.Plugins {
		if p.Enabled {
			out = append(out, cfg.BinaryPath(p))
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.found {
		if f.Name != "" {
			out = append(out, f.Path)
		}
	}
	return out
}

// touches says what an event is about.
func (f *follow) touches(e fsnotify.Event) (text, folder bool) {
	if d := f.dirs[filepath.Dir(e.Name)]; d != nil {
		name := filepath.Base(e.Name)
		text, folder = d.text[name], d.all || d.folder[name]
	}
	if d := f.dirs[e.Name]; d != nil && e.Op&(fsnotify.Remove|fsnotify.Rename) != 0 { // the folder itself
		text, folder = text || len(d.text) > 0, folder || d.all || len(d.folder) > 0
	}
	return text, folder
}

func (f *follow) run() {
	h := f.host
	seen := h.cfg().Sum // what the file said when it was last looked at
	text, folder := h.file() != "", true
	timer := time.NewTimer(0) // what changed between the start and now
	defer timer.Stop()
	var since time.Time // of the first change that is not taken up; zero: there is none
	settle := func(t, d bool) {
		if !t && !d {
			return
		}
		text, folder = text || t, folder || d
		if since.IsZero() {
			since = time.Now()
		}
		timer.Reset(min(settleTime, time.Until(since.Add(settleMost))))
	}
	for {
		select {
		case <-h.ctx.Done():
			return
		case e, ok := <-f.watcher.Events:
			if !ok {
				return
			}
			settle(f.touches(e))
		case err, ok := <-f.watcher.Errors:
			if !ok {
				return
			}
			h.log.Warn("a change may have been missed", "error", err)
			settle(true, true)
		case <-h.again:
			f.renew()
		case <-timer.C:
			f.renew() // first, so that nothing that happens from here on is missed
			applied := false
			if text {
				applied = f.look(&seen)
			}
			if folder && !applied {
				h.rescan()
				f.renew()
			}
			text, folder, since = false, false, time.Time{}
		}
	}
}

// look reads the config file and takes it up when its text is another. It reports
// whether the plugins folder was taken up with it.
func (f *follow) look(seen *[32]byte) bool {
	h := f.host
	raw, err := config.Text(h.file())
	if err != nil {
		if !f.gone {
			h.log.Warn("the config file can't be read; the running config stays", "file", h.file(), "error", err)
		}
		f.gone = true
		h.notInForce(fault.New(fault.ConfigMissing, "it can't be read: %w", err))
		return false
	}
	if f.gone {
		h.log.Info("the config file is back", "file", h.file())
	}
	f.gone = false
	now, _ := config.Parse(h.cfg().File, raw) // its faults are the reload's to tell
	if now.Sum == h.cfg().Sum {
		h.inForce() // whatever it said meanwhile
	}
	if now.Sum == *seen || now.Sum == h.cfg().Sum {
		*seen = now.Sum
		return false
	}
	*seen = now.Sum
	if now.Bare {
		// Some editors empty a file before they write it, and take their time.
		h.log.Warn("the config file is empty, or holds nothing but comments; the running config stays until it says something, or until a reload is asked for")
		h.notInForce(fault.New(fault.ConfigValue, "it says nothing"))
		return false
	}
	_, err = h.Reload(h.ctx)
	switch {
	case errors.As(err, new(errInForce)):
		h.log.Error("the config was reloaded, with faults", "error", err)
	case err != nil:
		h.log.Error("the config was not reloaded; the running one stays", "error", err)
		return false
	}
	return true
}

// rescan takes up what changed in the plugins folder.
func (h *Host) rescan() {
	ctx, cancel := context.WithTimeout(h.ctx, changeTime)
	defer cancel()
	h.changing.Lock()
	defer h.changing.Unlock()
	if err := h.apply(ctx, h.cfg()); err != nil && h.ctx.Err() == nil {
		h.log.Error("a change of the plugins folder was not taken up", "error", err)
	}
}
