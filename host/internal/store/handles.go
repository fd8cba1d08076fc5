package store

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// DescribeGet is the stored answer of a binary, nil when there is none.
func (s *Store) DescribeGet(ctx context.Context, sha256 string) ([]byte, error) {
	var answer []byte
	err := s.look(ctx, "read a description", func(ctx context.Context, db *sql.DB) error {
		return none(db.QueryRowContext(ctx, `SELECT answer FROM describes WHERE sha256 = ?`, sha256).Scan(&answer))
	})
	return answer, err
}

// DescribePut stores the answer of a binary and forgets the oldest of many.
func (s *Store) DescribePut(ctx context.Context, sha256 string, answer []byte) error {
	return s.in(ctx, "write a description", func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO describes (sha256, answer, at) VALUES (?, ?, ?)
			ON CONFLICT (sha256) DO UPDATE SET answer = excluded.answer, at = excluded.at`, sha256, answer, ms(s.now()))
		if err == nil {
			_, err = tx.ExecContext(ctx, `DELETE FROM describes WHERE sha256 IN (SELECT sha256 FROM describes ORDER BY at DESC LIMIT -1 OFFSET 500)`)
		}
		return err
	})
}

// none turns "no row" into nothing.
func none(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}

// Handle names a session for one plugin, across restarts.
type Handle struct {
	Handle, Plugin, Agent, Session, Namespace, Profile string

	Derived  bool
	Expires  time.Time // zero = by idleness alone, or never when derived
	LastUsed time.Time
}

const handleColumns = `handle, plugin, agent, session, namespace, profile, derived, expires, last_used`

func scanHandle(row interface{ Scan(...any) error }) (Handle, error) {
	var h Handle
	var expires, used int64
	err := row.Scan(&h.Handle, &h.Plugin, &h.Agent, &h.Session, &h.Namespace, &h.Profile, &h.Derived, &expires, &used)
	h.Expires, h.LastUsed = at(expires), at(used)
	return h, err
}

// HandlePut stores a handle; LastUsed is set to now when zero.
func (s *Store) HandlePut(ctx context.Context, h Handle) error {
	if h.LastUsed.IsZero() {
		h.LastUsed = s.now()
	}
	return s.in(ctx, "write a handle", func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO handles (`+handleColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (handle) DO UPDATE SET last_used = excluded.last_used, expires = excluded.expires`,
			h.Handle, h.Plugin, h.Agent, h.Session, h.Namespace, h.Profile, h.Derived, ms(h.Expires), ms(h.LastUsed))
		return err
	})
}

// HandleDerive stores a derived handle unless its plugin has most of them already.
func (s *Store) HandleDerive(ctx context.Context, h Handle, most int) (admitted bool, err error) {
	err = s.in(ctx, "write a derived handle", func(ctx context.Context, tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `INSERT INTO handles (`+handleColumns+`) SELECT ?, ?, ?, ?, ?, ?, 1, ?, ?
			WHERE (SELECT count(*) FROM handles WHERE plugin = ? AND derived = 1 AND (expires = 0 OR expires > ?)) < ?`,
			h.Handle, h.Plugin, h.Agent, h.Session, h.Namespace, h.Profile, ms(h.Expires), ms(h.LastUsed), h.Plugin, ms(s.now()), most)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		admitted = n > 0
		return err
	})
	return admitted, err
}

// HandleGet finds a handle; found is false for an unknown or expired one.
func (s *Store) HandleGet(ctx context.Context, handle string) (h Handle, found bool, err error) {
	err = s.look(ctx, "read a handle", func(ctx context.Context, db *sql.DB) error {
		h, err = scanHandle(db.QueryRowContext(ctx, `SELECT `+handleColumns+` FROM handles WHERE handle = ?`, handle))
		found = err == nil
		return none(err)
	})
	if found && !h.Expires.IsZero() && !s.now().Before(h.Expires) {
		return Handle{}, false, err
	}
	return h, found, err
}

// HandleFind finds the handle minted for a plugin, agent, session and profile.
func (s *Store) HandleFind(ctx context.Context, plugin, agent, session, profile string) (h Handle, found bool, err error) {
	err = s.look(ctx, "find a handle", func(ctx context.Context, db *sql.DB) error {
		h, err = scanHandle(db.QueryRowContext(ctx, `SELECT `+handleColumns+` FROM handles
			WHERE plugin = ? AND agent = ? AND session = ? AND profile = ? AND derived = 0 LIMIT 1`, plugin, agent, session, profile))
		found = err == nil
		return none(err)
	})
	return h, found, err
}

// HandleTouch notes that a handle was used. It writes at most once a minute.
func (s *Store) HandleTouch(ctx context.Context, handle string) error {
	now := s.now()
	return s.in(ctx, "touch a handle", func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE handles SET last_used = ? WHERE handle = ? AND last_used < ?`, ms(now), handle, ms(now.Add(-time.Minute)))
		return err
	})
}

// HandleDelete forgets a handle and tells whether it was there.
func (s *Store) HandleDelete(ctx context.Context, handle string) (bool, error) {
	var n int64
	err := s.in(ctx, "delete a handle", func(ctx context.Context, tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `DELETE FROM handles WHERE handle = ?`, handle)
		if err == nil {
			n, err = res.RowsAffected()
		}
		return err
	})
	return n > 0 && err == nil, err
}

// HandleSweep forgets handles that were idle for long, derived ones excepted,
// those past their end, and those of agents that keep says no to (nil = all).
func (s *Store) HandleSweep(ctx context.Context, idle time.Duration, keep func(agent string) bool) (int64, error) {
	now := s.now()
	var n int64
	err := s.in(ctx, "sweep handles", func(ctx context.Context, tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `DELETE FROM handles WHERE (derived = 0 AND last_used < ?) OR (expires > 0 AND expires <= ?)`, ms(now.Add(-idle)), ms(now))
		if err != nil {
			return err
		}
		if n, err = res.RowsAffected(); err != nil || keep == nil {
			return err
		}
		agents, err := texts(ctx, tx, `SELECT DISTINCT agent FROM handles`)
		if err != nil {
			return err
		}
		for _, agent := range agents {
			if keep(agent) {
				continue
			}
			res, err := tx.ExecContext(ctx, `DELETE FROM handles WHERE agent = ?`, agent)
			if err != nil {
				return err
			}
			more, err := res.RowsAffected()
			if err != nil {
				return err
			}
			n += more
		}
		return nil
	})
	return n, err
}

func texts(ctx context.Context, tx *sql.Tx, query string, args ...any) ([]string, error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var t string
		if err := rows.Scan(&t); err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, rows.Err()
}

// Session is a conversation of an agent.
type Session struct {
	ID, Agent           string
	CreatedAt, LastUsed time.Time
	Data                []byte // what the session package keeps with it
}

// SessionPut creates a session or notes its use. A session that belongs to
// another agent is left as it is, and owned is false.
func (s *Store) SessionPut(ctx context.Context, v Session) (owned bool, err error) {
	now := s.now()
	if v.CreatedAt.IsZero() {
		v.CreatedAt = now
	}
	if v.LastUsed.IsZero() {
		v.LastUsed = now
	}
	err = s.in(ctx, "write a session", func(ctx context.Context, tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `INSERT INTO sessions (id, agent, created_at, last_used, data) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET last_used = excluded.last_used, data = coalesce(excluded.data, data) WHERE agent = excluded.agent`,
			v.ID, v.Agent, ms(v.CreatedAt), ms(v.LastUsed), v.Data)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		owned = n > 0
		return err
	})
	return owned && err == nil, err
}

// SessionGet finds a session by id.
func (s *Store) SessionGet(ctx context.Context, id string) (v Session, found bool, err error) {
	err = s.look(ctx, "read a session", func(ctx context.Context, db *sql.DB) error {
		var created, used int64
		err := db.QueryRowContext(ctx, `SELECT id, agent, created_at, last_used, data FROM sessions WHERE id = ?`, id).Scan(&v.ID, &v.Agent, &created, &used, &v.Data)
		v.CreatedAt, v.LastUsed, found = at(created), at(used), err == nil
		return none(err)
	})
	return v, found, err
}

// SessionSweep forgets sessions that were idle for long and gives their ids.
func (s *Store) SessionSweep(ctx context.Context, idle time.Duration) ([]string, error) {
	var ids []string
	err := s.in(ctx, "sweep sessions", func(ctx context.Context, tx *sql.Tx) error {
		var err error
		ids, err = texts(ctx, tx, `DELETE FROM sessions WHERE last_used < ? RETURNING id`, ms(s.now().Add(-idle)))
		return err
	})
	return ids, err
}

// SessionTrim forgets all but the newest sessions of an agent, with what hangs on
// them: an id that is free again must not bring another's inbox along.
func (s *Store) SessionTrim(ctx context.Context, agent string, keep int) error {
	return s.in(ctx, "trim sessions", func(ctx context.Context, tx *sql.Tx) error {
		ids, err := texts(ctx, tx, `DELETE FROM sessions WHERE id IN
			(SELECT id FROM sessions WHERE agent = ? ORDER BY last_used DESC LIMIT -1 OFFSET ?) RETURNING id`, agent, keep)
		for _, id := range ids {
			if err == nil {
				_, err = tx.ExecContext(ctx, `DELETE FROM inbox WHERE session = ?`, id)
			}
			if err == nil {
				_, err = tx.ExecContext(ctx, `DELETE FROM handles WHERE session = ? AND agent = ?`, id, agent)
			}
		}
		return err
	})
}
