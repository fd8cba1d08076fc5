package store

import (
	"errors"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

// wrote notes how the last change went. Only what the disk or the file is to blame
// for stands in the state.
func (s *Store) wrote(err error) error {
	var f *fault.Error
	bad := errors.As(err, &f) && (f.Ref == fault.StoreFull || f.Ref == fault.StoreUnreadable)
	if err == nil {
		f = nil
	} else if !bad {
		return err
	}
	s.mu.Lock()
	s.broken = f
	s.mu.Unlock()
	return err
}

// State is what is wrong with the store just now: changes that the disk refuses, an
// audit trail that waits to be written, rows of it that were lost. Empty is good.
func (s *Store) State() (out []*fault.Error) {
	s.mu.Lock()
	broken := s.broken
	s.mu.Unlock()
	if broken != nil {
		out = append(out, broken)
	}
	if err := s.AuditError(); err != nil {
		out = append(out, fault.New(fault.StoreFull, "the audit trail can't be written, %d more rows wait: %w", len(s.audit.rows), err))
	} else if n := len(s.audit.rows); n > auditQueue/2 {
		out = append(out, fault.New(fault.StoreFull, "the audit trail is written too slowly: %d rows wait, %d have room", n, auditQueue))
	}
	if n := s.AuditDropped(); n > 0 {
		out = append(out, fault.New(fault.StoreFull, "%d rows of the audit trail were lost since the start", n))
	}
	return out
}
