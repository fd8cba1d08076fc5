package store

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

const (
	keyFile    = "host.key"
	keyBytes   = 32
	sealFormat = 1
	hostScope  = "host"
)

// keys derives one sealing key a scope from the host key.
type keys struct {
	path   string
	master []byte
	fresh  bool // made by this start

	mu    sync.Mutex
	aeads map[string]cipher.AEAD
}

// openKeys reads the host key, or makes one.
func openKeys(path string) (*keys, error) {
	k := &keys{path: path, aeads: map[string]cipher.AEAD{}}
	err := k.load()
	if errors.Is(err, os.ErrNotExist) {
		if err = k.create(); err == nil {
			err = k.load()
		}
	}
	var known *fault.Error
	switch {
	case err == nil:
		return k, nil
	case errors.As(err, &known):
		return nil, known
	}
	return nil, fault.New(fault.StoreFull, "the host key %s can't be read or made: %w", path, err)
}

func (k *keys) load() error {
	info, err := os.Lstat(k.path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fault.New(fault.HostKey, "the host key %s is not a regular file", k.path)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return fault.New(fault.HostKey, "the host key %s is readable by others (mode %04o); chmod 600 it", k.path, info.Mode().Perm())
	}
	text, err := os.ReadFile(k.path)
	if err != nil {
		return err
	}
	master, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(master) != keyBytes {
		return fault.New(fault.HostKey, "the host key %s is damaged; restore it, or remove it and lose what is sealed", k.path)
	}
	k.master = master
	return nil
}

// create writes a new key beside its place and links it there, so that a key
// another process made meanwhile is never replaced.
func (k *keys) create() error {
	master := make([]byte, keyBytes)
	rand.Read(master) // never fails
	tmp := fmt.Sprintf("%s.%s.tmp", k.path, rand.Text())
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	_, err = f.WriteString(hex.EncodeToString(master) + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err = os.Link(tmp, k.path); err != nil {
		if errors.Is(err, os.ErrExist) {
			return nil
		}
		if err = os.Rename(tmp, k.path); err != nil { // a file system without links
			return err
		}
	}
	k.fresh = true
	if d, err := os.Open(filepath.Dir(k.path)); err == nil {
		_ = d.Sync() // not every file system can
		d.Close()
	}
	return nil
}

func (k *keys) aead(scope string) (cipher.AEAD, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a := k.aeads[scope]; a != nil {
		return a, nil
	}
	key, err := hkdf.Key(sha256.New, k.master, nil, "bulkhead seal 1 "+scope, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	a, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	k.aeads[scope] = a
	return a, nil
}

// Seal encrypts plain under the key of a scope, bound to aad. The aad must say
// what the value is and where it stands, so that it can't be moved.
func (s *Store) Seal(scope string, aad, plain []byte) ([]byte, error) {
	a, err := s.keys.aead(scope)
	if err != nil {
		return nil, err
	}
	return a.Seal([]byte{sealFormat}, nil, plain, aad), nil
}

// Unseal is the reverse of Seal. It fails when scope, aad, key or a byte differ.
func (s *Store) Unseal(scope string, aad, sealed []byte) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != sealFormat {
		return nil, fault.New(fault.StoreUnreadable, "a sealed value of %s is damaged", scope)
	}
	a, err := s.keys.aead(scope)
	if err != nil {
		return nil, err
	}
	plain, err := a.Open(nil, nil, sealed[1:], aad)
	if err != nil {
		return nil, fault.New(fault.StoreUnreadable, "a sealed value of %s can't be opened: it is damaged, or %s is not the key it was sealed with", scope, s.keys.path)
	}
	return plain, nil
}

// seal keeps nil nil, so that absent stays absent.
func (s *Store) seal(table, id, column string, plain []byte) ([]byte, error) {
	if plain == nil {
		return nil, nil
	}
	return s.Seal(hostScope, aad(table, id, column), plain)
}

func (s *Store) unseal(table, id, column string, sealed []byte) ([]byte, error) {
	if sealed == nil {
		return nil, nil
	}
	return s.Unseal(hostScope, aad(table, id, column), sealed)
}

func aad(parts ...string) []byte { return []byte(strings.Join(parts, "\x1f")) }

// checkKey notices a host key that is not the one the database was sealed with.
func (s *Store) checkKey(ctx context.Context) error {
	const name = "key_check"
	var sealed []byte
	err := s.read.QueryRowContext(ctx, `SELECT value FROM meta WHERE name = ?`, name).Scan(&sealed)
	if err == nil {
		if _, err = s.Unseal(hostScope, aad("meta", name), sealed); err == nil {
			return nil
		}
		s.warn(fault.New(fault.StoreUnreadable, "the host key %s is not the one this database was sealed with; secrets and waiting calls from before can't be opened", s.keys.path))
	} else if !errors.Is(err, sql.ErrNoRows) {
		return s.fail("read the key check", err)
	}
	if sealed, err = s.Seal(hostScope, aad("meta", name), []byte("ok")); err != nil {
		return err
	}
	return s.in(ctx, "write the key check", func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, sealed)
		return err
	})
}
