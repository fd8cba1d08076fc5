package store

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

// Bounds of an inbox.
const (
	MaxInbox     = 1000    // items a session; the oldest make room
	MaxInboxItem = 1 << 20 // bytes of text and data
)

// InboxItem is one event for a session.
type InboxItem struct {
	Seq            uint64
	Session, Agent string
	Kind, Text     string
	Data           []byte
	DedupID        string // a second item with this id in the session is dropped
	At             time.Time
}

// InboxAppend adds an item and gives its number. added is false when an item
// with this DedupID is there already; the number is then that one's.
func (s *Store) InboxAppend(ctx context.Context, v InboxItem) (seq uint64, added bool, err error) {
	if len(v.Text)+len(v.Data) > MaxInboxItem {
		return 0, false, fault.New(fault.StateTooLarge, "an event of %d bytes is too large for an inbox, at most %d", len(v.Text)+len(v.Data), MaxInboxItem)
	}
	if v.At.IsZero() {
		v.At = s.now()
	}
	err = s.in(ctx, "write to the inbox", func(ctx context.Context, tx *sql.Tx) error {
		if v.DedupID != "" {
			err := tx.QueryRowContext(ctx, `SELECT seq FROM inbox WHERE session = ? AND dedup_id = ?`, v.Session, v.DedupID).Scan(&seq)
			if err == nil {
				return nil
			}
			if none(err) != nil {
				return err
			}
		}
		err := tx.QueryRowContext(ctx, `INSERT INTO inbox (session, agent, kind, text, data, dedup_id, at) VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING seq`,
			v.Session, v.Agent, v.Kind, v.Text, v.Data, v.DedupID, ms(v.At)).Scan(&seq)
		if err != nil {
			return err
		}
		added = true
		_, err = tx.ExecContext(ctx, `DELETE FROM inbox WHERE session = ? AND seq <=
			(SELECT seq FROM inbox WHERE session = ? ORDER BY seq DESC LIMIT 1 OFFSET ?)`, v.Session, v.Session, MaxInbox)
		return err
	})
	if added && err == nil {
		s.inboxChanged(v.Session)
	}
	return seq, added && err == nil, err
}

// InboxRemove takes the item with a DedupID out of a session's inbox: what it tells
// is told already.
func (s *Store) InboxRemove(ctx context.Context, session, dedupID string) error {
	var n int64
	err := s.in(ctx, "write to the inbox", func(ctx context.Context, tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `DELETE FROM inbox WHERE session = ? AND dedup_id = ? AND dedup_id <> ''`, session, dedupID)
		if err == nil {
			n, err = res.RowsAffected()
		}
		return err
	})
	if err == nil && n > 0 {
		s.inboxChanged(session)
	}
	return err
}

// OnInbox sets what is called with a session's id after its inbox changed. It is
// set before the store is used, and must not wait.
func (s *Store) OnInbox(told func(session string)) { s.onInbox = told }

func (s *Store) inboxChanged(session string) {
	if s.onInbox != nil {
		s.onInbox(session)
	}
}

// InboxRead lists a session's items after a number.
func (s *Store) InboxRead(ctx context.Context, session string, after uint64, limit int) ([]InboxItem, error) {
	return s.inboxWhere(ctx, `session = ? AND seq > ? ORDER BY seq LIMIT ?`, session, int64(after), page(limit))
}

// InboxTail lists a session's latest items, the oldest first.
func (s *Store) InboxTail(ctx context.Context, session string, limit int) ([]InboxItem, error) {
	out, err := s.inboxWhere(ctx, `session = ? ORDER BY seq DESC LIMIT ?`, session, page(limit))
	slices.Reverse(out)
	return out, err
}

func (s *Store) inboxWhere(ctx context.Context, where string, args ...any) ([]InboxItem, error) {
	var out []InboxItem
	err := s.look(ctx, "read the inbox", func(ctx context.Context, db *sql.DB) error {
		rows, err := db.QueryContext(ctx, `SELECT seq, session, agent, kind, text, data, dedup_id, at FROM inbox WHERE `+where, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var v InboxItem
			var when int64
			if err := rows.Scan(&v.Seq, &v.Session, &v.Agent, &v.Kind, &v.Text, &v.Data, &v.DedupID, &when); err != nil {
				return err
			}
			v.At = at(when)
			out = append(out, v)
		}
		return rows.Err()
	})
	return out, err
}

// InboxPrune forgets items older than a time.
func (s *Store) InboxPrune(ctx context.Context, before time.Time) (int64, error) {
	var n int64
	pruned := map[string]bool{}
	err := s.in(ctx, "prune the inbox", func(ctx context.Context, tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `DELETE FROM inbox WHERE at < ? RETURNING session`, ms(before))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var session string
			if err := rows.Scan(&session); err != nil {
				return err
			}
			pruned[session] = true
			n++
		}
		return rows.Err()
	})
	if err != nil {
		return 0, err
	}
	for session := range pruned {
		s.inboxChanged(session)
	}
	return n, nil
}
