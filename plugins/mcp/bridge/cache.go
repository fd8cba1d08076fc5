package bridge

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/downstream"
)

// cacheAge is how long what a server last offered is worth showing before it
// has answered again.
const cacheAge = 7 * 24 * time.Hour

// cached is what a server offered when it was last looked at. With it a new
// process of the bridge offers the same tools from its first moment on: a call
// waits for the connection, instead of finding no such tool.
type cached struct {
	Identity string              `json:"identity"`
	At       time.Time           `json:"at"`
	Surface  *downstream.Surface `json:"surface"`
}

func (s *server) cacheFile() string {
	dir := s.b.plugin.Facts().DataDir
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "surfaces", strings.ToLower(s.conf.Name)+".json")
}

// recall offers what the cache holds for these very settings.
func (s *server) recall() {
	file := s.cacheFile()
	if file == "" {
		return
	}
	raw, err := os.ReadFile(file)
	var c cached
	if err != nil || json.Unmarshal(raw, &c) != nil || c.Surface == nil || c.Identity != s.id || time.Since(c.At) > cacheAge {
		return
	}
	c.Surface.Notes = nil
	s.publish(c.Surface)
}

// keep writes the cache; without it the bridge only starts less well.
func (s *server) keep(full *downstream.Surface) {
	file := s.cacheFile()
	if file == "" || full.Fingerprint == "" {
		return
	}
	raw, err := json.Marshal(cached{s.id, time.Now(), full})
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o700)
	}
	if err == nil {
		err = os.WriteFile(file+".tmp", raw, 0o600)
	}
	if err == nil {
		err = os.Rename(file+".tmp", file)
	}
	if err != nil {
		s.log.Debug("what the server offers is not kept", "error", err)
	}
}

func (s *server) discard() {
	if file := s.cacheFile(); file != "" {
		_ = os.Remove(file) // it may never have been written
	}
}
