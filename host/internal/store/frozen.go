package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

// Status is how far a frozen call has come.
type Status string

// A frozen call waits, is permitted or taken, and ends done or closed. Done has
// a result nobody fetched yet.
const (
	Waiting   Status = "waiting"
	Permitted Status = "permitted"
	Running   Status = "running"
	Done      Status = "done"
	Closed    Status = "closed"
)

// FrozenCall is a call that waits for answers. Arguments, State and Result are
// sealed on disk.
type FrozenCall struct {
	ID, Agent, Session, Run, ModelTier, Tool, Plugin string

	ArgsHash             string // hex SHA-256 of Arguments
	Arguments            []byte
	State                []byte
	Round                int
	Status               Status
	Chain                []string // plugins above the call, outermost first
	Result               []byte
	CreatedAt, ExpiresAt time.Time
}

const frozenColumns = `id, agent, session, run, model_tier, tool, plugin, args_hash, arguments, state, round, status, chain, result, created_at, expires_at`

func (s *Store) scanFrozen(row interface{ Scan(...any) error }) (FrozenCall, error) {
	var c FrozenCall
	var chain string
	var created, expires int64
	err := row.Scan(&c.ID, &c.Agent, &c.Session, &c.Run, &c.ModelTier, &c.Tool, &c.Plugin, &c.ArgsHash, &c.Arguments, &c.State, &c.Round, &c.Status, &chain, &c.Result, &created, &expires)
	if err != nil {
		return FrozenCall{}, err
	}
	c.CreatedAt, c.ExpiresAt = at(created), at(expires)
	if err := json.Unmarshal([]byte(chain), &c.Chain); err != nil {
		return FrozenCall{}, err
	}
	for column, field := range map[string]*[]byte{"arguments": &c.Arguments, "state": &c.State, "result": &c.Result} {
		if *field, err = s.unseal("frozen", c.ID, column, *field); err != nil {
			return FrozenCall{}, err
		}
	}
	return c, nil
}

// InsertFrozen stores a call and the questions it waits for, all or nothing.
func (s *Store) InsertFrozen(ctx context.Context, c FrozenCall, questions []Question) error {
	if c.CreatedAt.IsZero() {
		c.CreatedAt = s.now()
	}
	if c.Status == "" {
		c.Status = Waiting
	}
	chain, err := json.Marshal(c.Chain)
	if err != nil {
		return err
	}
	sealed := map[string][]byte{"arguments": c.Arguments, "state": c.State, "result": c.Result}
	for column, plain := range sealed {
		if sealed[column], err = s.seal("frozen", c.ID, column, plain); err != nil {
			return err
		}
	}
	return s.in(ctx, "store a waiting call", func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO frozen (`+frozenColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			c.ID, c.Agent, c.Session, c.Run, c.ModelTier, c.Tool, c.Plugin, c.ArgsHash, sealed["arguments"], sealed["state"], c.Round, string(c.Status), string(chain), sealed["result"], ms(c.CreatedAt), ms(c.ExpiresAt))
		if err != nil {
			return err
		}
		for _, q := range questions {
			q.CallID = c.ID
			if err := s.insertQuestion(ctx, tx, q); err != nil {
				return err
			}
		}
		return nil
	})
}

// NextRound puts a call that asks again back to waiting, with its new state and
// questions. It fails as closed when the call is not in the status given.
func (s *Store) NextRound(ctx context.Context, id string, from Status, round int, state []byte, expires time.Time, questions []Question) error {
	sealed, err := s.seal("frozen", id, "state", state)
	if err != nil {
		return err
	}
	return s.in(ctx, "store the next round", func(ctx context.Context, tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE frozen SET status = ?, round = ?, state = ?, expires_at = ? WHERE id = ? AND status = ?`, string(Waiting), round, sealed, ms(expires), id, string(from))
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil {
			return err
		} else if n == 0 {
			return fault.New(fault.QuestionClosed, "call %s is no longer %s", id, from)
		}
		for _, q := range questions {
			q.CallID = id
			if err := s.insertQuestion(ctx, tx, q); err != nil {
				return err
			}
		}
		return nil
	})
}

// GetFrozen finds a call by id.
func (s *Store) GetFrozen(ctx context.Context, id string) (c FrozenCall, found bool, err error) {
	err = s.look(ctx, "read a waiting call", func(ctx context.Context, db *sql.DB) error {
		c, err = s.scanFrozen(db.QueryRowContext(ctx, `SELECT `+frozenColumns+` FROM frozen WHERE id = ?`, id))
		found = err == nil
		return none(err)
	})
	return c, found, err
}

// FindFrozen lists the calls that equal this one and are neither closed nor
// expired, the newest first.
func (s *Store) FindFrozen(ctx context.Context, agent, session, tool, argsHash string) ([]FrozenCall, error) {
	return s.frozenWhere(ctx, `agent = ? AND session = ? AND tool = ? AND args_hash = ? AND status <> 'closed' AND (expires_at = 0 OR expires_at > ?) ORDER BY created_at DESC, id`,
		agent, session, tool, argsHash, ms(s.now()))
}

// ListFrozen lists the calls of one status, the oldest first.
func (s *Store) ListFrozen(ctx context.Context, status Status) ([]FrozenCall, error) {
	return s.frozenWhere(ctx, `status = ? ORDER BY created_at, id`, string(status))
}

func (s *Store) frozenWhere(ctx context.Context, where string, args ...any) ([]FrozenCall, error) {
	var out []FrozenCall
	err := s.look(ctx, "find waiting calls", func(ctx context.Context, db *sql.DB) error {
		rows, err := db.QueryContext(ctx, `SELECT `+frozenColumns+` FROM frozen WHERE `+where+` LIMIT 1000`, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			c, err := s.scanFrozen(rows)
			if err != nil {
				return err
			}
			out = append(out, c)
		}
		return rows.Err()
	})
	return out, err
}

// FrozenChange is what UpdateFrozen sets beside the status; nil leaves as is.
type FrozenChange struct {
	State, Result []byte
	ExpiresAt     time.Time // zero = as is
}

// UpdateFrozen moves a call from one status to another. It tells false when the
// call is not in from, so that of two takers only one wins.
func (s *Store) UpdateFrozen(ctx context.Context, id string, from, to Status, change FrozenChange) (bool, error) {
	state, err := s.seal("frozen", id, "state", change.State)
	if err != nil {
		return false, err
	}
	result, err := s.seal("frozen", id, "result", change.Result)
	if err != nil {
		return false, err
	}
	won := false
	err = s.in(ctx, "change a waiting call", func(ctx context.Context, tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE frozen SET status = ?, state = coalesce(?, state), result = coalesce(?, result),
			expires_at = CASE WHEN ? > 0 THEN ? ELSE expires_at END WHERE id = ? AND status = ?`,
			string(to), state, result, ms(change.ExpiresAt), ms(change.ExpiresAt), id, string(from))
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		won = n > 0
		return err
	})
	return won && err == nil, err
}

// SweepFrozen closes calls whose time is over and forgets, with their
// questions, those that ended before a time.
func (s *Store) SweepFrozen(ctx context.Context, before time.Time) (closed int64, err error) {
	err = s.in(ctx, "sweep waiting calls", func(ctx context.Context, tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE frozen SET status = 'closed' WHERE status NOT IN ('closed', 'running') AND expires_at > 0 AND expires_at <= ?`, ms(s.now()))
		if err != nil {
			return err
		}
		if closed, err = res.RowsAffected(); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM questions WHERE outcome <> '' AND expires_at < ?
			AND (call_id = '' OR call_id IN (SELECT id FROM frozen WHERE status = 'closed' AND expires_at < ?))`, ms(before), ms(before)); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM frozen WHERE status = 'closed' AND expires_at < ?
			AND NOT EXISTS (SELECT 1 FROM questions WHERE call_id = frozen.id)`, ms(before))
		return err
	})
	return closed, err
}
