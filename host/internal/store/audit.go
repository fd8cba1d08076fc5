package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

const (
	auditQueue   = 4096
	auditBatch   = 1024
	auditLinger  = 100 * time.Millisecond // how long a row waits for others
	auditWait    = 250 * time.Millisecond // how long a call waits for room
	auditRetry   = time.Second            // between attempts on a disk that refuses
	auditFlush   = 10 * time.Second       // at Close
	maxAuditBlob = 1 << 20                // bytes kept of arguments or result
)

// AuditRow is one line of the audit trail. Seq, PrevHash and Hash are set when
// it is written.
type AuditRow struct {
	Seq                          uint64
	At                           time.Time
	CallID, ParentCallID         string
	Agent, Session, Tool, Plugin string
	Tier, Door, Status, Ref      string

	DurationMs  int64
	ArgsHash    string
	ArgsBytes   int64
	ResultBytes int64
	Arguments   []byte // of elevated and restricted tools only
	Result      []byte
	Note        string // a reason, an approver, a chain

	PrevHash, Hash []byte
}

// auditor is the one writer of the trail.
type auditor struct {
	s       *Store
	rows    chan AuditRow
	full    chan struct{} // a batch is together before its time
	flushes chan chan error
	quit    chan struct{}
	done    chan struct{}
	dropped atomic.Uint64
	noted   uint64 // drops that stand in the trail

	mu   sync.Mutex
	last error
}

func startAuditor(s *Store) *auditor {
	a := &auditor{s: s, rows: make(chan AuditRow, auditQueue), full: make(chan struct{}, 1), flushes: make(chan chan error), quit: make(chan struct{}), done: make(chan struct{})}
	go a.run()
	return a
}

// Audit hands a row to the writer. With a full queue it waits a moment and then
// drops the row, which AuditDropped counts and the trail itself records.
func (s *Store) Audit(row AuditRow) {
	if row.At.IsZero() {
		row.At = s.now()
	}
	row.Arguments, row.Result = cut(row.Arguments), cut(row.Result)
	a := s.audit
	select {
	case <-a.quit:
		a.dropped.Add(1)
		return
	default:
	}
	select {
	case a.rows <- row:
		if len(a.rows) >= auditBatch {
			select {
			case a.full <- struct{}{}:
			default:
			}
		}
		return
	default:
	}
	timer := time.NewTimer(auditWait)
	defer timer.Stop()
	select {
	case a.rows <- row:
	case <-timer.C:
		a.dropped.Add(1)
	case <-a.quit:
		a.dropped.Add(1)
	}
}

func cut(b []byte) []byte {
	if len(b) > maxAuditBlob {
		b = b[:maxAuditBlob]
	}
	return b
}

// AuditDropped counts rows that were lost since the start.
func (s *Store) AuditDropped() uint64 { return s.audit.dropped.Load() }

// AuditError is why the last attempt to write the trail failed, nil when it went.
func (s *Store) AuditError() error {
	s.audit.mu.Lock()
	defer s.audit.mu.Unlock()
	return s.audit.last
}

// AuditFlush waits until all rows handed over so far are on disk.
func (s *Store) AuditFlush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	reply := make(chan error, 1)
	select {
	case s.audit.flushes <- reply:
	case <-s.audit.done:
		return fault.New(fault.HostStopping, "the audit trail is closed")
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-reply:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *auditor) stop() error {
	close(a.quit)
	select {
	case <-a.done:
	case <-time.After(auditFlush + auditRetry):
		return errors.New("the audit trail could not be written in time")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

// run writes rows together: a transaction a row would cost more than the calls. A
// batch that can't be written is kept and tried again, so the queue fills and
// callers begin to notice.
func (a *auditor) run() {
	defer close(a.done)
	for {
		select {
		case row := <-a.rows:
			if !a.gather(row) {
				return
			}
		case reply := <-a.flushes:
			reply <- a.persist(a.collectAll())
		case <-a.quit:
			a.persist(a.collectAll())
			return
		}
	}
}

// gather waits a moment for more rows and writes them; false after quit. It sleeps
// while they come in: to be woken by each would cost every call a switch of threads.
func (a *auditor) gather(first AuditRow) bool {
	timer := time.NewTimer(auditLinger)
	defer timer.Stop()
	batch := func() []AuditRow { return append([]AuditRow{first}, a.collectAll()...) }
	select {
	case <-timer.C:
	case <-a.full:
	case reply := <-a.flushes:
		reply <- a.persist(batch())
		return true
	case <-a.quit:
		a.persist(batch())
		return false
	}
	a.persist(batch())
	return true
}

func (a *auditor) collectAll() []AuditRow {
	var batch []AuditRow
	for n := len(a.rows); n > 0; n-- {
		batch = append(batch, <-a.rows)
	}
	return batch
}

func (a *auditor) persist(batch []AuditRow) error {
	for {
		noted := a.dropped.Load()
		rows := batch
		if lost := noted - a.noted; lost > 0 {
			rows = append(rows[:len(rows):len(rows)], AuditRow{At: a.s.now(), Tool: "audit", Status: "dropped", Note: fmt.Sprintf("%d rows were lost, for the trail could not be written", lost)})
		}
		err := a.write(rows)
		a.mu.Lock()
		a.last = err
		a.mu.Unlock()
		if err == nil {
			a.noted = noted
			return nil
		}
		select {
		case <-a.quit:
			if err := a.write(rows); err == nil {
				a.mu.Lock()
				a.last = nil
				a.mu.Unlock()
				return nil
			}
			a.dropped.Add(uint64(len(batch)))
			return err
		case reply := <-a.flushes:
			reply <- err
		case <-time.After(auditRetry):
		}
	}
}

const auditColumns = `seq, at, call_id, parent_call_id, agent, session, tool, plugin, tier, door, status, ref, duration_ms, args_hash, args_bytes, result_bytes, arguments, result, note, prev_hash, hash`

func (a *auditor) write(batch []AuditRow) error {
	if len(batch) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	s := a.s
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return s.fail("write the audit trail", err)
	}
	defer tx.Rollback()
	head, err := s.auditHead(ctx, tx)
	if err != nil {
		return s.fail("read the audit trail", err)
	}
	stmt, err := tx.PrepareContext(ctx, `INSERT INTO audit (`+auditColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
	if err != nil {
		return s.fail("write the audit trail", err)
	}
	defer stmt.Close()
	for _, r := range batch {
		r.At = at(ms(r.At))
		r.Seq, r.PrevHash = head.Seq+1, head.Hash
		r.Hash = r.digest()
		_, err := stmt.ExecContext(ctx, int64(r.Seq), ms(r.At), r.CallID, r.ParentCallID, r.Agent, r.Session, r.Tool, r.Plugin, r.Tier, r.Door, r.Status, r.Ref, r.DurationMs, r.ArgsHash, r.ArgsBytes, r.ResultBytes, r.Arguments, r.Result, r.Note, r.PrevHash, r.Hash)
		if err != nil {
			return s.fail("write the audit trail", err)
		}
		head = auditMark{r.Seq, r.Hash}
	}
	if err := s.putMark(ctx, tx, auditHeadName, head); err != nil {
		return s.fail("write the audit trail", err)
	}
	return s.fail("write the audit trail", tx.Commit())
}

// digest is the hash of everything in the row and of the row before.
func (r AuditRow) digest() []byte {
	h := sha256.New()
	part := func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	number := func(n int64) { part(binary.BigEndian.AppendUint64(nil, uint64(n))) }
	part(r.PrevHash)
	number(int64(r.Seq))
	number(ms(r.At))
	for _, t := range []string{r.CallID, r.ParentCallID, r.Agent, r.Session, r.Tool, r.Plugin, r.Tier, r.Door, r.Status, r.Ref, r.ArgsHash, r.Note} {
		part([]byte(t))
	}
	number(r.DurationMs)
	number(r.ArgsBytes)
	number(r.ResultBytes)
	part(r.Arguments)
	part(r.Result)
	return h.Sum(nil)
}

// auditMark is a place in the trail. The head is kept sealed beside the trail,
// so that cutting rows off its end is noticed too.
type auditMark struct {
	Seq  uint64
	Hash []byte
}

const auditHeadName = "audit_head"

func (s *Store) auditHead(ctx context.Context, q interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}) (auditMark, error) {
	m := auditMark{Hash: []byte{}}
	err := q.QueryRowContext(ctx, `SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1`).Scan(&m.Seq, &m.Hash)
	return m, none(err)
}

func (s *Store) putMark(ctx context.Context, tx *sql.Tx, name string, m auditMark) error {
	plain, err := json.Marshal(m)
	if err != nil {
		return err
	}
	sealed, err := s.Seal(hostScope, aad("meta", name), plain)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, sealed)
	return err
}

func scanAudit(row interface{ Scan(...any) error }) (AuditRow, error) {
	var r AuditRow
	var when int64
	err := row.Scan(&r.Seq, &when, &r.CallID, &r.ParentCallID, &r.Agent, &r.Session, &r.Tool, &r.Plugin, &r.Tier, &r.Door, &r.Status, &r.Ref, &r.DurationMs, &r.ArgsHash, &r.ArgsBytes, &r.ResultBytes, &r.Arguments, &r.Result, &r.Note, &r.PrevHash, &r.Hash)
	r.At = at(when)
	return r, err
}

// AuditTail lists rows after a number, oldest first; after < 0 means the last
// limit rows.
func (s *Store) AuditTail(ctx context.Context, after int64, limit int) ([]AuditRow, error) {
	return s.AuditTailOf(ctx, "", after, limit)
}

// AuditTailOf is AuditTail of one agent's calls; an empty name is everyone's.
func (s *Store) AuditTailOf(ctx context.Context, agent string, after int64, limit int) ([]AuditRow, error) {
	query, args := `SELECT `+auditColumns+` FROM audit WHERE seq > ? AND (? = '' OR agent = ?) ORDER BY seq LIMIT ?`, []any{after, agent, agent, page(limit)}
	if after < 0 {
		query = `SELECT * FROM (SELECT ` + auditColumns + ` FROM audit WHERE ? = '' OR agent = ? ORDER BY seq DESC LIMIT ?) ORDER BY seq`
		args = []any{agent, agent, page(limit)}
	}
	var out []AuditRow
	err := s.look(ctx, "read the audit trail", func(ctx context.Context, db *sql.DB) error {
		rows, err := db.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			r, err := scanAudit(rows)
			if err != nil {
				return err
			}
			out = append(out, r)
		}
		return rows.Err()
	})
	return out, err
}

// AuditReport is what AuditVerify found.
type AuditReport struct {
	Rows   uint64
	OK     bool
	BadSeq uint64 // first row that does not fit
	Detail string
}

// AuditVerify walks the whole trail and checks that no row was changed, put in
// or taken out. It has no deadline of its own but the caller's.
func (s *Store) AuditVerify(ctx context.Context) (AuditReport, error) {
	if err := s.open(); err != nil {
		return AuditReport{}, err
	}
	tx, err := s.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return AuditReport{}, s.fail("verify the audit trail", err)
	}
	defer tx.Rollback()
	report := AuditReport{OK: true}
	bad := func(seq uint64, format string, args ...any) (AuditReport, error) {
		report.OK, report.BadSeq, report.Detail = false, seq, fmt.Sprintf(format, args...)
		return report, nil
	}
	rows, err := tx.QueryContext(ctx, `SELECT `+auditColumns+` FROM audit ORDER BY seq`)
	if err != nil {
		return report, s.fail("verify the audit trail", err)
	}
	defer rows.Close()
	last := auditMark{Hash: []byte{}}
	for rows.Next() {
		r, err := scanAudit(rows)
		switch {
		case err != nil:
			return report, s.fail("verify the audit trail", err)
		case r.Seq != last.Seq+1:
			return bad(last.Seq+1, "row %d is missing", last.Seq+1)
		case !bytes.Equal(r.PrevHash, last.Hash):
			return bad(r.Seq, "row %d does not follow from the one before", r.Seq)
		case !bytes.Equal(r.Hash, r.digest()):
			return bad(r.Seq, "row %d was changed", r.Seq)
		}
		last = auditMark{r.Seq, r.Hash}
		report.Rows++
	}
	if err := rows.Err(); err != nil {
		return report, s.fail("verify the audit trail", err)
	}
	var sealed []byte
	if err := none(tx.QueryRowContext(ctx, `SELECT value FROM meta WHERE name = ?`, auditHeadName).Scan(&sealed)); err != nil {
		return report, s.fail("verify the audit trail", err)
	}
	if sealed == nil && last.Seq == 0 {
		return report, nil
	}
	var head auditMark
	plain, err := s.Unseal(hostScope, aad("meta", auditHeadName), sealed)
	if err != nil || json.Unmarshal(plain, &head) != nil {
		return bad(last.Seq, "the seal of the trail's end can't be opened")
	}
	if head.Seq != last.Seq || !bytes.Equal(head.Hash, last.Hash) {
		return bad(last.Seq+1, "the trail ends at row %d, its seal says %d", last.Seq, head.Seq)
	}
	return report, nil
}
