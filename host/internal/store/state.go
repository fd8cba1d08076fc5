package store

import (
	"context"
	"database/sql"
	"errors"
	"unicode/utf8"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

// Bounds of what one plugin may keep.
const (
	MaxValue      = 1 << 20   // bytes under one key
	MaxStateBytes = 256 << 20 // bytes under all keys
	MaxKey        = 512       // bytes of a key
)

// StateValue is what stands under a key. Version 0 means absent.
type StateValue struct {
	Value   []byte
	Version uint64
	Secret  bool
}

// StateEntry is a key in a listing.
type StateEntry struct {
	Key     string
	Version uint64
	Size    int64 // bytes
}

// NextGeneration gives out the next generation number of a plugin, from 1.
func (s *Store) NextGeneration(ctx context.Context, plugin string) (uint64, error) {
	var g uint64
	err := s.in(ctx, "count a generation of "+plugin, func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `INSERT INTO plugins (plugin, generation) VALUES (?, 1)
			ON CONFLICT (plugin) DO UPDATE SET generation = generation + 1 RETURNING generation`, plugin).Scan(&g)
	})
	return g, err
}

// Fence refuses, from now on, writes of generations below the one given.
func (s *Store) Fence(ctx context.Context, plugin string, generation uint64) error {
	return s.in(ctx, "fence "+plugin, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO plugins (plugin, fence) VALUES (?, ?)
			ON CONFLICT (plugin) DO UPDATE SET fence = max(fence, excluded.fence)`, plugin, int64(generation))
		return err
	})
}

// StateGet reads a value; a zero Version means there is none.
func (s *Store) StateGet(ctx context.Context, plugin, key string) (StateValue, error) {
	var v StateValue
	err := s.look(ctx, "read state of "+plugin, func(ctx context.Context, db *sql.DB) error {
		err := db.QueryRowContext(ctx, `SELECT value, version, secret FROM state WHERE plugin = ? AND key = ?`, plugin, key).Scan(&v.Value, &v.Version, &v.Secret)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	if err == nil && v.Secret {
		v.Value, err = s.Unseal(pluginScope(plugin), aad(plugin, key), v.Value)
	}
	if err != nil {
		return StateValue{}, err
	}
	return v, nil
}

// StatePut writes a value for a generation of a plugin and gives its version.
func (s *Store) StatePut(ctx context.Context, plugin string, generation uint64, key string, value []byte, secret bool) (uint64, error) {
	_, version, err := s.put(ctx, plugin, generation, key, nil, value, secret)
	return version, err
}

// StateCompareAndSet writes only when the version under the key is the expected
// one, 0 for none. Otherwise it tells the version that is there.
func (s *Store) StateCompareAndSet(ctx context.Context, plugin string, generation uint64, key string, expected uint64, value []byte, secret bool) (bool, uint64, error) {
	return s.put(ctx, plugin, generation, key, &expected, value, secret)
}

func (s *Store) put(ctx context.Context, plugin string, generation uint64, key string, expected *uint64, value []byte, secret bool) (bool, uint64, error) {
	if err := checkKeyName(plugin, key); err != nil {
		return false, 0, err
	}
	if len(value) > MaxValue {
		return false, 0, fault.New(fault.StateTooLarge, "plugin %s: the value under %q has %d bytes, at most %d are kept", plugin, key, len(value), MaxValue)
	}
	stored := value
	if stored == nil {
		stored = []byte{}
	}
	if secret {
		var err error
		if stored, err = s.Seal(pluginScope(plugin), aad(plugin, key), value); err != nil {
			return false, 0, err
		}
	}
	var version uint64
	swapped := true
	err := s.in(ctx, "write state of "+plugin, func(ctx context.Context, tx *sql.Tx) error {
		if err := fenced(ctx, tx, plugin, generation); err != nil {
			return err
		}
		var have uint64
		var size int64
		err := tx.QueryRowContext(ctx, `SELECT version, size FROM state WHERE plugin = ? AND key = ?`, plugin, key).Scan(&have, &size)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if expected != nil && *expected != have {
			swapped, version = false, have
			return nil
		}
		var total int64
		err = tx.QueryRowContext(ctx, `UPDATE plugins SET state_version = state_version + 1, state_bytes = state_bytes + ?
			WHERE plugin = ? RETURNING state_version, state_bytes`, int64(len(value))-size, plugin).Scan(&version, &total)
		if err != nil {
			return err
		}
		if total > MaxStateBytes {
			return fault.New(fault.StateTooLarge, "plugin %s keeps more than %d MiB of state; delete some", plugin, MaxStateBytes>>20)
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO state (plugin, key, value, secret, size, version) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (plugin, key) DO UPDATE SET value = excluded.value, secret = excluded.secret, size = excluded.size, version = excluded.version`,
			plugin, key, stored, secret, int64(len(value)), int64(version))
		return err
	})
	if err != nil {
		return false, 0, err
	}
	return swapped, version, nil
}

// StateDelete removes a value and tells whether there was one.
func (s *Store) StateDelete(ctx context.Context, plugin string, generation uint64, key string) (bool, error) {
	found := false
	err := s.in(ctx, "delete state of "+plugin, func(ctx context.Context, tx *sql.Tx) error {
		if err := fenced(ctx, tx, plugin, generation); err != nil {
			return err
		}
		var size int64
		err := tx.QueryRowContext(ctx, `DELETE FROM state WHERE plugin = ? AND key = ? RETURNING size`, plugin, key).Scan(&size)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		found = true
		_, err = tx.ExecContext(ctx, `UPDATE plugins SET state_bytes = state_bytes - ? WHERE plugin = ?`, size, plugin)
		return err
	})
	return found && err == nil, err
}

// StateList lists keys with a prefix in their order, after the key given. next
// is the key to go on from, empty at the end.
func (s *Store) StateList(ctx context.Context, plugin, prefix, after string, limit int) (entries []StateEntry, next string, err error) {
	limit = page(limit)
	err = s.look(ctx, "list state of "+plugin, func(ctx context.Context, db *sql.DB) error {
		rows, err := db.QueryContext(ctx, `SELECT key, version, size FROM state
			WHERE plugin = ? AND key > ? AND key >= ? AND substr(key, 1, length(?)) = ? ORDER BY key LIMIT ?`,
			plugin, after, prefix, prefix, prefix, limit+1)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var e StateEntry
			if err := rows.Scan(&e.Key, &e.Version, &e.Size); err != nil {
				return err
			}
			entries = append(entries, e)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, "", err
	}
	if len(entries) > limit {
		entries = entries[:limit]
		next = entries[limit-1].Key
	}
	return entries, next, nil
}

func pluginScope(plugin string) string { return "plugin:" + plugin }

func checkKeyName(plugin, key string) error {
	if key == "" || len(key) > MaxKey || !utf8.ValidString(key) {
		return fault.New(fault.BadArguments, "plugin %s: a key is text of 1 to %d bytes", plugin, MaxKey)
	}
	return nil
}

// fenced refuses the writes of a generation that was replaced, and makes the
// plugin's row.
func fenced(ctx context.Context, tx *sql.Tx, plugin string, generation uint64) error {
	var fence uint64
	err := tx.QueryRowContext(ctx, `INSERT INTO plugins (plugin) VALUES (?)
		ON CONFLICT (plugin) DO UPDATE SET plugin = excluded.plugin RETURNING fence`, plugin).Scan(&fence)
	if err != nil {
		return err
	}
	if generation < fence {
		return fault.New(fault.PluginFenced, "generation %d of plugin %s was replaced by %d; its writes are refused", generation, plugin, fence)
	}
	return nil
}
