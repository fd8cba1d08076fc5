package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

// FileName is the database's name inside the data dir.
const FileName = "bulkhead.db"

const (
	deadline    = 10 * time.Second // of one method
	openTime    = time.Minute      // of opening, checks and migrations included
	busyTimeout = 5000             // ms one connection waits for another
	readers     = 4
)

// Options say where the store lives. Now may be set by tests.
type Options struct {
	Dir string // made if absent
	Now func() time.Time
}

// Store is an open database. It is safe for concurrent use.
type Store struct {
	dir   string
	now   func() time.Time
	write *sql.DB // one connection
	read  *sql.DB
	keys  *keys
	audit *auditor

	onInbox func(session string) // nil: nobody wants to know

	mu       sync.Mutex
	warnings []*fault.Error
	broken   *fault.Error // why the last change was refused; nil = it was made
	closed   bool
}

// Open opens the database of a data dir, brings its schema up to date and
// starts the audit writer. What was wrong but could be put right stands in
// Warnings.
func Open(ctx context.Context, o Options) (*Store, error) {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	s := &Store{dir: o.Dir, now: o.Now}
	if s.now == nil {
		s.now = time.Now
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fault.New(fault.StoreFull, "the data dir %s can't be made: %w", o.Dir, err)
	}
	var err error
	if s.keys, err = openKeys(filepath.Join(o.Dir, keyFile)); err != nil {
		return nil, err
	}
	path := filepath.Join(o.Dir, FileName)
	err = s.connect(ctx, path)
	if unreadable(err) {
		aside, asideErr := s.setAside(path)
		if asideErr != nil {
			return nil, asideErr
		}
		s.warn(fault.New(fault.StoreUnreadable, "the database %s could not be read (%v); it is kept as %s and the host begins with an empty one", path, err, aside))
		err = s.connect(ctx, path)
	}
	if err != nil {
		s.disconnect()
		return nil, s.fail("open the database", err)
	}
	if err := s.checkKey(ctx); err != nil {
		s.disconnect()
		return nil, err
	}
	s.audit = startAuditor(s)
	return s, nil
}

func (s *Store) warn(f *fault.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warnings = append(s.warnings, f)
}

// Warnings is what was found wrong and put right since Open.
func (s *Store) Warnings() []*fault.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*fault.Error(nil), s.warnings...)
}

// Close writes what is left of the audit trail and closes the database.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	err := s.audit.stop()
	return errors.Join(err, s.disconnect())
}

func (s *Store) disconnect() error {
	var errs []error
	for _, db := range []*sql.DB{s.read, s.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	s.read, s.write = nil, nil
	return errors.Join(errs...)
}

// connect opens both pools, checks the file and migrates it.
func (s *Store) connect(ctx context.Context, path string) error {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return fault.New(fault.StoreUnreadable, "%s is not a regular file; move it away", path)
	}
	dsn := (&url.URL{Scheme: "file", OmitHost: true, Path: path}).String()
	var err error
	// The look at the version changes nothing, for a newer file must stay as it is.
	if s.write, err = driver.Open(dsn, pragmas("PRAGMA busy_timeout=%d", busyTimeout)); err != nil {
		return err
	}
	s.write.SetMaxOpenConns(1)
	version, err := inspect(ctx, s.write, path)
	if err == nil {
		err = s.write.Close()
	}
	if err != nil {
		s.disconnect()
		return err
	}
	if s.write, err = driver.Open(dsn, pragmas("PRAGMA busy_timeout=%d; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA wal_autocheckpoint=1000; PRAGMA journal_size_limit=67108864", busyTimeout)); err != nil {
		return err
	}
	s.write.SetMaxOpenConns(1)
	if err := migrate(ctx, s.write, version); err != nil {
		s.disconnect()
		return err
	}
	for _, part := range []string{"", "-wal", "-shm"} { // the data dir may be open to others
		if err := os.Chmod(path+part, 0o600); err != nil && (part == "" || !errors.Is(err, fs.ErrNotExist)) {
			s.disconnect()
			return err
		}
	}
	if s.read, err = driver.Open(dsn, pragmas("PRAGMA busy_timeout=%d; PRAGMA query_only=ON", busyTimeout)); err != nil {
		s.disconnect()
		return err
	}
	s.read.SetMaxOpenConns(readers)
	return nil
}

func pragmas(format string, args ...any) func(*sqlite3.Conn) error {
	text := fmt.Sprintf(format, args...)
	return func(c *sqlite3.Conn) error { return c.Exec(text) }
}

// setAside renames an unreadable database and its side files.
func (s *Store) setAside(path string) (string, error) {
	s.disconnect()
	stamp := s.now().UTC().Format("20060102T150405Z")
	aside := path + ".unreadable-" + stamp
	for n := 2; ; n++ {
		if _, err := os.Lstat(aside); errors.Is(err, os.ErrNotExist) {
			break
		}
		aside = fmt.Sprintf("%s.unreadable-%s-%d", path, stamp, n)
	}
	if err := os.Rename(path, aside); err != nil {
		return "", fault.New(fault.StoreUnreadable, "the database %s could not be read and can't be set aside: %w", path, err)
	}
	for _, side := range []string{"-wal", "-shm", "-journal"} {
		if err := os.Rename(path+side, aside+side); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", fault.New(fault.StoreUnreadable, "%s can't be set aside: %w", path+side, err)
		}
	}
	return aside, nil
}

// in runs one change as one transaction.
func (s *Store) in(ctx context.Context, what string, change func(context.Context, *sql.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	if err := s.open(); err != nil {
		return err
	}
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return s.wrote(s.fail(what, err))
	}
	defer tx.Rollback() // a no-op after Commit
	if err := change(ctx, tx); err != nil {
		return s.wrote(s.fail(what, err))
	}
	return s.wrote(s.fail(what, tx.Commit()))
}

// look runs reads.
func (s *Store) look(ctx context.Context, what string, read func(context.Context, *sql.DB) error) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	if err := s.open(); err != nil {
		return err
	}
	return s.fail(what, read(ctx, s.read))
}

func (s *Store) open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fault.New(fault.HostStopping, "the store is closed")
	}
	return nil
}

// fail turns an error of the database into a fault.
func (s *Store) fail(what string, err error) error {
	var known *fault.Error
	var code sqlite3.ErrorCode
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("can't %s: %w", what, err)
	case errors.Is(err, sql.ErrConnDone):
		return fault.New(fault.HostStopping, "can't %s: %w", what, err)
	case unreadable(err):
		return fault.New(fault.StoreUnreadable, "can't %s in %s: %w", what, s.dir, err)
	case errors.As(err, &code):
		switch code {
		case sqlite3.FULL, sqlite3.READONLY, sqlite3.IOERR, sqlite3.CANTOPEN, sqlite3.PERM, sqlite3.NOLFS:
			return fault.New(fault.StoreFull, "can't %s in %s: %w", what, s.dir, err)
		case sqlite3.BUSY, sqlite3.LOCKED:
			return fault.New(fault.HostBusy, "can't %s: the database is busy: %w", what, err)
		case sqlite3.INTERRUPT:
			return fmt.Errorf("can't %s: %w", what, context.DeadlineExceeded)
		}
	case errors.Is(err, os.ErrPermission):
		return fault.New(fault.StoreFull, "can't %s in %s: %w", what, s.dir, err)
	}
	return fmt.Errorf("can't %s: %w", what, err)
}

func unreadable(err error) bool {
	return errors.Is(err, sqlite3.CORRUPT) || errors.Is(err, sqlite3.NOTADB) || errors.As(err, new(corrupt))
}

// Times are kept as milliseconds; the zero time is 0.
func ms(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func at(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// page bounds how many rows one answer may have.
func page(limit int) int {
	const most = 1000
	if limit <= 0 || limit > most {
		return most
	}
	return limit
}
