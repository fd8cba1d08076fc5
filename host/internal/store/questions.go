package store

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

// Question is one thing that must be answered. Its Content is sealed on disk.
type Question struct {
	ID        string
	CallID    string // frozen call; empty for one that blocks its handler
	RequestID string // the plugin's name for it
	Kind      string // form | url | approval | model | notice

	Agent, Session, Tool, Plugin string

	Message      string
	Schema       []byte
	URL          string
	ModelRequest []byte
	Audience     string // person | agent | any
	NoFallback   bool
	Decision     bool
	CallerGone   bool

	CreatedAt, ExpiresAt time.Time

	Outcome    string // empty while open; else accept, decline, cancel, approve, deny, expired, interrupted
	Content    []byte
	AnsweredBy string
	AnsweredAt time.Time
	Reason     string
}

// Open tells whether the question still waits.
func (q Question) Open() bool { return q.Outcome == "" }

// Answer closes a question.
type Answer struct {
	Outcome    string
	Content    []byte
	AnsweredBy string
	Reason     string
}

// Answered is what an answer led to.
type Answered struct {
	Question Question
	Call     *FrozenCall // nil for a question without a frozen call
	All      bool        // every question of the call is answered
}

const questionColumns = `id, call_id, request_id, kind, agent, session, tool, plugin, message, schema, url, model_request, audience, no_fallback, decision, caller_gone, created_at, expires_at, outcome, content, answered_by, answered_at, reason`

func (s *Store) scanQuestion(row interface{ Scan(...any) error }) (Question, error) {
	var q Question
	var created, expires, answered int64
	err := row.Scan(&q.ID, &q.CallID, &q.RequestID, &q.Kind, &q.Agent, &q.Session, &q.Tool, &q.Plugin, &q.Message, &q.Schema, &q.URL, &q.ModelRequest, &q.Audience, &q.NoFallback, &q.Decision, &q.CallerGone, &created, &expires, &q.Outcome, &q.Content, &q.AnsweredBy, &answered, &q.Reason)
	if err != nil {
		return Question{}, err
	}
	q.CreatedAt, q.ExpiresAt, q.AnsweredAt = at(created), at(expires), at(answered)
	q.Content, err = s.unseal("questions", q.ID, "content", q.Content)
	return q, err
}

// InsertQuestion stores a question that belongs to no frozen call.
func (s *Store) InsertQuestion(ctx context.Context, q Question) error {
	return s.in(ctx, "store a question", func(ctx context.Context, tx *sql.Tx) error {
		return s.insertQuestion(ctx, tx, q)
	})
}

func (s *Store) insertQuestion(ctx context.Context, tx *sql.Tx, q Question) error {
	if q.CreatedAt.IsZero() {
		q.CreatedAt = s.now()
	}
	content, err := s.seal("questions", q.ID, "content", q.Content)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO questions (`+questionColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		q.ID, q.CallID, q.RequestID, q.Kind, q.Agent, q.Session, q.Tool, q.Plugin, q.Message, q.Schema, q.URL, q.ModelRequest, q.Audience, q.NoFallback, q.Decision, q.CallerGone, ms(q.CreatedAt), ms(q.ExpiresAt), q.Outcome, content, q.AnsweredBy, ms(q.AnsweredAt), q.Reason)
	return err
}

// AnswerQuestion closes an open question. A closed or expired one gives
// fault.QuestionClosed, an unknown one fault.UnknownQuestion.
func (s *Store) AnswerQuestion(ctx context.Context, id string, a Answer) (Answered, error) {
	var out Answered
	if a.Outcome == "" {
		return out, fault.New(fault.BadArguments, "an answer needs an outcome")
	}
	content, err := s.seal("questions", id, "content", a.Content)
	if err != nil {
		return out, err
	}
	now := ms(s.now())
	err = s.in(ctx, "answer a question", func(ctx context.Context, tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE questions SET outcome = ?, content = ?, answered_by = ?, answered_at = ?, reason = ?
			WHERE id = ? AND outcome = '' AND (expires_at = 0 OR expires_at > ?)`, a.Outcome, content, a.AnsweredBy, now, a.Reason, id, now)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if err != nil {
			return err
		}
		out.Question, err = s.scanQuestion(tx.QueryRowContext(ctx, `SELECT `+questionColumns+` FROM questions WHERE id = ?`, id))
		switch {
		case err != nil && none(err) == nil:
			return fault.New(fault.UnknownQuestion, "there is no question %s", id)
		case err != nil:
			return err
		case n == 0 && out.Question.Open():
			return fault.New(fault.QuestionClosed, "question %s expired at %s", id, out.Question.ExpiresAt.Format(time.RFC3339))
		case n == 0:
			return fault.New(fault.QuestionClosed, "question %s is already closed (%s by %s)", id, out.Question.Outcome, out.Question.AnsweredBy)
		case out.Question.CallID == "":
			return nil
		}
		call, err := s.scanFrozen(tx.QueryRowContext(ctx, `SELECT `+frozenColumns+` FROM frozen WHERE id = ?`, out.Question.CallID))
		if err != nil {
			return err
		}
		out.Call = &call
		var open int
		err = tx.QueryRowContext(ctx, `SELECT count(*) FROM questions WHERE call_id = ? AND outcome = ''`, call.ID).Scan(&open)
		out.All = open == 0
		return err
	})
	if err != nil {
		return Answered{}, err
	}
	return out, nil
}

// GetQuestion finds a question by id.
func (s *Store) GetQuestion(ctx context.Context, id string) (q Question, found bool, err error) {
	err = s.look(ctx, "read a question", func(ctx context.Context, db *sql.DB) error {
		q, err = s.scanQuestion(db.QueryRowContext(ctx, `SELECT `+questionColumns+` FROM questions WHERE id = ?`, id))
		found = err == nil
		return none(err)
	})
	return q, found, err
}

// QuestionFilter narrows a listing; empty fields admit all.
type QuestionFilter struct {
	Open                           bool // only open ones, not yet expired
	Agent, Session, CallID, Plugin string
	Limit                          int
}

func (s *Store) questionWhere(f QuestionFilter) (string, []any) {
	where, args := []string{"1 = 1"}, []any{}
	if f.Open {
		where, args = append(where, "outcome = '' AND (expires_at = 0 OR expires_at > ?)"), append(args, ms(s.now()))
	}
	for column, value := range map[string]string{"agent": f.Agent, "session": f.Session, "call_id": f.CallID, "plugin": f.Plugin} {
		if value != "" {
			where, args = append(where, column+" = ?"), append(args, value)
		}
	}
	return strings.Join(where, " AND "), args
}

// ListQuestions lists questions, the oldest first.
func (s *Store) ListQuestions(ctx context.Context, f QuestionFilter) ([]Question, error) {
	where, args := s.questionWhere(f)
	var out []Question
	err := s.look(ctx, "list questions", func(ctx context.Context, db *sql.DB) error {
		rows, err := db.QueryContext(ctx, `SELECT `+questionColumns+` FROM questions WHERE `+where+` ORDER BY created_at, rowid LIMIT ?`, append(args, page(f.Limit))...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			q, err := s.scanQuestion(rows)
			if err != nil {
				return err
			}
			out = append(out, q)
		}
		return rows.Err()
	})
	return out, err
}

// CountQuestions counts what ListQuestions would list without its limit.
func (s *Store) CountQuestions(ctx context.Context, f QuestionFilter) (int, error) {
	where, args := s.questionWhere(f)
	var n int
	err := s.look(ctx, "count questions", func(ctx context.Context, db *sql.DB) error {
		return db.QueryRowContext(ctx, `SELECT count(*) FROM questions WHERE `+where, args...).Scan(&n)
	})
	return n, err
}

// ExpireQuestions closes the open questions whose time is over and gives them.
func (s *Store) ExpireQuestions(ctx context.Context) ([]Question, error) {
	return s.closeQuestions(ctx, "expired", `outcome = '' AND expires_at > 0 AND expires_at <= ?`, ms(s.now()))
}

// InterruptQuestions closes the open questions that belong to no frozen call:
// those of one plugin whose process ended, or of all plugins when it is empty.
func (s *Store) InterruptQuestions(ctx context.Context, plugin string) ([]Question, error) {
	return s.closeQuestions(ctx, "interrupted", `outcome = '' AND call_id = '' AND kind <> 'notice' AND (? = '' OR plugin = ?)`, plugin, plugin)
}

func (s *Store) closeQuestions(ctx context.Context, outcome, where string, args ...any) ([]Question, error) {
	var out []Question
	err := s.in(ctx, "close questions", func(ctx context.Context, tx *sql.Tx) error {
		args := append([]any{outcome, ms(s.now())}, args...)
		rows, err := tx.QueryContext(ctx, `UPDATE questions SET outcome = ?, answered_by = 'host', answered_at = ? WHERE `+where+` RETURNING `+questionColumns, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			q, err := s.scanQuestion(rows)
			if err != nil {
				return err
			}
			out = append(out, q)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// MarkCallerGone notes that nobody waits for a call's open questions.
func (s *Store) MarkCallerGone(ctx context.Context, callID string) error {
	return s.in(ctx, "mark a caller gone", func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE questions SET caller_gone = 1 WHERE call_id = ? AND outcome = ''`, callID)
		return err
	})
}
