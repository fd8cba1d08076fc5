package store

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func verify(t *testing.T, s *Store) AuditReport {
	t.Helper()
	r, err := s.AuditVerify(ctx)
	must(t, err)
	return r
}

func TestAuditChainsAndSurvives(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	if r := verify(t, s); !r.OK || r.Rows != 0 {
		t.Fatalf("empty trail: %+v", r)
	}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 500 {
				s.Audit(AuditRow{CallID: fmt.Sprint(w, "-", i), Agent: "a", Tool: "t", Status: "ok", Arguments: []byte("{}"), ArgsBytes: 2})
			}
		})
	}
	wg.Wait()
	must(t, s.AuditFlush(ctx))
	if r := verify(t, s); !r.OK || r.Rows != 2000 || s.AuditDropped() != 0 {
		t.Fatalf("%+v, %d dropped", r, s.AuditDropped())
	}
	s.Audit(AuditRow{Tool: "last", Result: make([]byte, maxAuditBlob+1)})
	must(t, s.Close()) // flushes
	s = open(t, dir, nil)
	if r := verify(t, s); !r.OK || r.Rows != 2001 {
		t.Fatalf("after reopening: %+v", r)
	}
	tail, err := s.AuditTail(ctx, -1, 2)
	must(t, err)
	if len(tail) != 2 || tail[1].Tool != "last" || tail[1].Seq != 2001 || len(tail[1].Result) != maxAuditBlob {
		t.Errorf("tail has %d rows", len(tail))
	}
	tail, err = s.AuditTail(ctx, 1999, 10)
	must(t, err)
	if len(tail) != 2 || tail[0].Seq != 2000 {
		t.Errorf("after 1999: %d rows", len(tail))
	}
}

func TestAuditVerifySeesTampering(t *testing.T) {
	for name, c := range map[string]struct {
		sql string
		bad uint64
	}{
		"changed":        {`UPDATE audit SET tool = 'x' WHERE seq = 5`, 5},
		"changed result": {`UPDATE audit SET result = x'00' WHERE seq = 3`, 3},
		"taken out":      {`DELETE FROM audit WHERE seq = 4`, 4},
		"moved up":       {`DELETE FROM audit WHERE seq = 4; UPDATE audit SET seq = seq - 1 WHERE seq > 4`, 4},
		"end cut off":    {`DELETE FROM audit WHERE seq > 7`, 8},
		"all gone":       {`DELETE FROM audit`, 1},
		"seal gone":      {`DELETE FROM meta WHERE name = 'audit_head'`, 10},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir(), nil)
			for i := range 10 {
				s.Audit(AuditRow{CallID: fmt.Sprint(i), Tool: "t"})
			}
			must(t, s.AuditFlush(ctx))
			_, err := s.write.Exec(c.sql)
			must(t, err)
			if r := verify(t, s); r.OK || r.BadSeq != c.bad || r.Detail == "" {
				t.Errorf("%+v, want bad row %d", r, c.bad)
			}
		})
	}
}

func TestAuditDropsAreVisible(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	held, err := s.write.BeginTx(ctx, nil) // nothing can be written
	must(t, err)
	for range auditQueue + auditBatch + 1 {
		s.Audit(AuditRow{Tool: "t"})
	}
	for s.AuditDropped() == 0 {
		s.Audit(AuditRow{Tool: "t"})
	}
	must(t, held.Rollback())
	must(t, s.AuditFlush(ctx))
	s.Audit(AuditRow{Tool: "after"})
	must(t, s.AuditFlush(ctx))
	var notes int
	must(t, s.read.QueryRow(`SELECT count(*) FROM audit WHERE status = 'dropped'`).Scan(&notes))
	if notes == 0 {
		t.Error("the trail does not say that rows were lost")
	}
	if r := verify(t, s); !r.OK {
		t.Errorf("%+v", r)
	}
	tail, err := s.AuditTail(ctx, -1, 5)
	must(t, err)
	var text strings.Builder
	for _, r := range tail {
		text.WriteString(r.Tool + " ")
	}
	if !strings.Contains(text.String(), "after") {
		t.Errorf("tail: %s", text.String())
	}
}
