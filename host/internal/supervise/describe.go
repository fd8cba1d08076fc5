package supervise

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/launch"
	"github.com/bulkhead-dev/bulkhead/host/internal/sandbox"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// describer answers Describe once per binary hash.
type describer struct {
	s *Supervisor

	mu     sync.Mutex
	hashes map[string]hashed
	locks  map[string]*sync.Mutex // one throw-away start at a time per hash
	known  map[string]*pluginv1.DescribeResponse
}

// hashed is a hash and what the file looked like when it was taken.
type hashed struct {
	sum   string
	size  int64
	mtime time.Time
	info  os.FileInfo
}

func (d *describer) init(s *Supervisor) {
	d.s = s
	d.hashes = map[string]hashed{}
	d.locks = map[string]*sync.Mutex{}
	d.known = map[string]*pluginv1.DescribeResponse{}
}

// hash hashes a binary unless it has not changed since the last time.
func (d *describer) hash(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	d.mu.Lock()
	h, ok := d.hashes[path]
	d.mu.Unlock()
	if ok && h.size == info.Size() && h.mtime.Equal(info.ModTime()) && os.SameFile(h.info, info) {
		return h.sum, nil
	}
	sum, err := launch.Hash(path)
	if err != nil {
		return "", err
	}
	d.mu.Lock()
	d.hashes[path] = hashed{sum, info.Size(), info.ModTime(), info}
	d.mu.Unlock()
	return sum, nil
}

func (d *describer) describe(ctx context.Context, p Plugin) (*pluginv1.DescribeResponse, error) {
	if err := launch.CheckBinary(p.Binary, p.Folder); err != nil {
		return nil, fault.New(fault.PluginBinary, "plugin %q: %w", p.Name, err)
	}
	if err := launch.CheckHead(p.Binary); err != nil {
		return nil, fault.New(fault.PluginBinary, "plugin %q: %w", p.Name, err)
	}
	sum, err := d.hash(p.Binary)
	if err != nil {
		return nil, fault.New(fault.PluginBinary, "plugin %q: %w", p.Name, err)
	}
	if p.SHA256 != "" {
		sum = p.SHA256 // the start checks that these are the bytes
	}
	d.mu.Lock()
	lock := d.locks[sum]
	if lock == nil {
		lock = &sync.Mutex{}
		d.locks[sum] = lock
	}
	d.mu.Unlock()
	lock.Lock()
	defer lock.Unlock()

	d.mu.Lock()
	desc := d.known[sum]
	d.mu.Unlock()
	if desc != nil {
		return desc, nil
	}
	cache := d.s.opts.DescribeCache
	if cache != nil {
		desc, _ = cache.Get(sum)
	}
	if desc == nil {
		spec := d.throwAway(p)
		defer os.RemoveAll(filepath.Dir(spec.DataDir))
		if desc, err = launch.Describe(ctx, spec); err != nil {
			return nil, err
		}
		if cache != nil {
			if err := cache.Put(sum, desc); err != nil {
				d.s.opts.Log.Warn("a plugin's description could not be kept", "plugin", p.Name, "error", err)
			}
		}
	}
	d.mu.Lock()
	d.known[sum] = desc
	d.mu.Unlock()
	return desc, nil
}

// throwAway is a start that leaves nothing behind.
func (d *describer) throwAway(p Plugin) launch.Spec {
	spec := d.s.spec(p)
	home := filepath.Join(d.s.opts.DataDir, "tmp", "describe-"+filepath.Base(spec.RunDir))
	spec.DataDir, spec.TempDir = filepath.Join(home, "data"), filepath.Join(home, "tmp")
	spec.Env = nil
	spec.Sandbox = sandbox.Profile{Name: sandbox.Strict, Network: sandbox.NetworkNone, NoNamespaces: d.s.opts.NoNamespaces}
	return spec
}

// Describe says what a plugin's binary is, from the cache or by a throw-away
// start under strict without network.
func (s *Supervisor) Describe(ctx context.Context, p Plugin) (*pluginv1.DescribeResponse, error) {
	return s.descs.describe(ctx, p)
}

// Validate lets a plugin check an evaluated config by a throw-away start under
// strict without network.
func (s *Supervisor) Validate(ctx context.Context, p Plugin, json []byte) ([]*pluginv1.Diagnostic, error) {
	if err := launch.CheckBinary(p.Binary, p.Folder); err != nil {
		return nil, fault.New(fault.PluginBinary, "plugin %q: %w", p.Name, err)
	}
	spec := s.descs.throwAway(p)
	defer os.RemoveAll(filepath.Dir(spec.DataDir))
	proc, err := launch.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	defer proc.Stop(ctx)
	ctx, cancel := context.WithTimeout(ctx, s.opts.ConfigTimeout)
	defer cancel()
	valid, err := proc.Client().Validate(ctx, &pluginv1.ValidateRequest{ConfigJson: json})
	if err != nil {
		return nil, fault.New(fault.PluginStart, "plugin %q did not validate its config: %w", p.Name, err)
	}
	return valid.GetDiagnostics(), nil
}
