package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3/driver"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func refOf(err error) fault.Ref {
	var f *fault.Error
	if errors.As(err, &f) {
		return f.Ref
	}
	return ""
}

func wantRef(t *testing.T, err error, ref fault.Ref) {
	t.Helper()
	if refOf(err) != ref {
		t.Fatalf("error = %v, want %s", err, ref)
	}
}

// clock is a time that tests move.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func open(t *testing.T, dir string, c *clock) *Store {
	t.Helper()
	o := Options{Dir: dir}
	if c != nil {
		o.Now = c.now
	}
	s, err := Open(context.Background(), o)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

var ctx = context.Background()

func TestStateVersionsFenceAndCompareAndSet(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	g1, err := s.NextGeneration(ctx, "web")
	must(t, err)
	g2, err := s.NextGeneration(ctx, "web")
	must(t, err)
	if g1 != 1 || g2 != 2 {
		t.Fatalf("generations %d, %d", g1, g2)
	}
	v1, err := s.StatePut(ctx, "web", g1, "k", []byte("one"), false)
	must(t, err)
	if found, err := s.StateDelete(ctx, "web", g1, "k"); !found || err != nil {
		t.Fatalf("delete: %v %v", found, err)
	}
	swapped, v2, err := s.StateCompareAndSet(ctx, "web", g1, "k", 0, []byte("two"), false)
	must(t, err)
	if !swapped || v2 <= v1 {
		t.Fatalf("a version came back after a delete: %d then %d", v1, v2)
	}
	swapped, have, err := s.StateCompareAndSet(ctx, "web", g1, "k", v1, []byte("x"), false)
	must(t, err)
	if swapped || have != v2 {
		t.Fatalf("stale version accepted: %v %d", swapped, have)
	}
	must(t, s.Fence(ctx, "web", g2))
	must(t, s.Fence(ctx, "web", g1)) // a fence never goes back
	_, err = s.StatePut(ctx, "web", g1, "k", []byte("old"), false)
	wantRef(t, err, fault.PluginFenced)
	_, err = s.StateDelete(ctx, "web", g1, "k")
	wantRef(t, err, fault.PluginFenced)
	_, err = s.StatePut(ctx, "web", g2, "k", []byte("new"), false)
	must(t, err)
	if v, err := s.StateGet(ctx, "other", "k"); err != nil || v.Version != 0 {
		t.Fatalf("another plugin sees it: %v %v", v, err)
	}
	_, err = s.StatePut(ctx, "web", g2, "big", make([]byte, MaxValue+1), false)
	wantRef(t, err, fault.StateTooLarge)
	_, err = s.StatePut(ctx, "web", g2, "big", make([]byte, MaxValue), false)
	must(t, err)
	_, err = s.StatePut(ctx, "web", g2, "", nil, false)
	wantRef(t, err, fault.BadArguments)
}

func TestStateListPagesByPrefix(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	for i := range 25 {
		_, err := s.StatePut(ctx, "p", 1, fmt.Sprintf("a%%/%02d", i), []byte("x"), false)
		must(t, err)
	}
	_, err := s.StatePut(ctx, "p", 1, "aX/0", nil, false)
	must(t, err)
	var keys []string
	after := ""
	for {
		entries, next, err := s.StateList(ctx, "p", "a%/", after, 10)
		must(t, err)
		for _, e := range entries {
			keys = append(keys, e.Key)
		}
		if after = next; next == "" {
			break
		}
	}
	if len(keys) != 25 || keys[0] != "a%/00" || keys[24] != "a%/24" {
		t.Fatalf("listed %v", keys)
	}
}

func TestSecretsAreSealedAndBound(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	_, err := s.StatePut(ctx, "web", 1, "token", []byte("top-secret-value"), true)
	must(t, err)
	must(t, s.InsertFrozen(ctx, FrozenCall{ID: "c1", Agent: "a", Tool: "t", Arguments: []byte(`{"pw":"args-secret"}`), State: []byte("state-secret")}, []Question{{ID: "q1", Kind: "form"}}))
	_, err = s.AnswerQuestion(ctx, "q1", Answer{Outcome: "accept", Content: []byte("answer-secret")})
	must(t, err)
	v, err := s.StateGet(ctx, "web", "token")
	must(t, err)
	if string(v.Value) != "top-secret-value" || !v.Secret {
		t.Fatalf("read back %q", v.Value)
	}
	// Moving a sealed value to another place must not open it.
	_, err = s.write.Exec(`UPDATE state SET key = 'moved' WHERE key = 'token'`)
	must(t, err)
	_, err = s.StateGet(ctx, "web", "moved")
	wantRef(t, err, fault.StoreUnreadable)
	must(t, s.Close())
	files, err := filepath.Glob(filepath.Join(dir, FileName+"*"))
	must(t, err)
	for _, f := range files {
		data, err := os.ReadFile(f)
		must(t, err)
		for _, secret := range []string{"top-secret-value", "args-secret", "state-secret", "answer-secret"} {
			if bytes.Contains(data, []byte(secret)) {
				t.Errorf("%s stands in the clear in %s", secret, filepath.Base(f))
			}
		}
	}
	info, err := os.Stat(filepath.Join(dir, keyFile))
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("host key has mode %o", info.Mode().Perm())
	}
}

// What is written into a data dir that others may enter is not for them to read.
func TestFilesAreTheOwnersOnly(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	s := open(t, dir, nil)
	_, err := s.SessionPut(t.Context(), Session{ID: "s", Agent: "a"})
	must(t, err)
	files, err := filepath.Glob(filepath.Join(dir, FileName+"*"))
	must(t, err)
	if len(files) < 2 {
		t.Errorf("no write-ahead log: %v", files)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", filepath.Base(f), info.Mode().Perm())
		}
	}
}

func TestSealScopesDiffer(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	sealed, err := s.Seal("plugin:a", []byte("k"), []byte("v"))
	must(t, err)
	plain, err := s.Unseal("plugin:a", []byte("k"), sealed)
	must(t, err)
	if string(plain) != "v" {
		t.Fatal(string(plain))
	}
	for _, try := range []struct{ scope, aad string }{{"plugin:b", "k"}, {"plugin:a", "other"}} {
		if _, err := s.Unseal(try.scope, []byte(try.aad), sealed); refOf(err) != fault.StoreUnreadable {
			t.Errorf("opened with %v: %v", try, err)
		}
	}
	sealed[len(sealed)-1] ^= 1
	if _, err := s.Unseal("plugin:a", []byte("k"), sealed); err == nil {
		t.Error("a changed value opened")
	}
	if _, err := s.Unseal("plugin:a", []byte("k"), nil); err == nil {
		t.Error("nothing opened")
	}
}

func TestAnotherHostKeyIsNoticed(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	_, err := s.StatePut(ctx, "p", 1, "s", []byte("v"), true)
	must(t, err)
	_, err = s.StatePut(ctx, "p", 1, "plain", []byte("v"), false)
	must(t, err)
	must(t, s.Close())
	must(t, os.Remove(filepath.Join(dir, keyFile)))
	s = open(t, dir, nil)
	if w := s.Warnings(); len(w) != 1 || w[0].Ref != fault.StoreUnreadable {
		t.Fatalf("warnings: %v", w)
	}
	_, err = s.StateGet(ctx, "p", "s")
	wantRef(t, err, fault.StoreUnreadable)
	if v, err := s.StateGet(ctx, "p", "plain"); err != nil || string(v.Value) != "v" {
		t.Fatalf("plain value lost: %v %v", v, err)
	}
}

func TestHostKeyMustBePrivate(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, keyFile), []byte(strings.Repeat("ab", keyBytes)), 0o644))
	_, err := Open(ctx, Options{Dir: dir})
	wantRef(t, err, fault.HostKey)
	must(t, os.WriteFile(filepath.Join(dir, keyFile), []byte("not a key"), 0o644))
	must(t, os.Chmod(filepath.Join(dir, keyFile), 0o600))
	_, err = Open(ctx, Options{Dir: dir})
	wantRef(t, err, fault.HostKey)
}

func TestUnreadableFileIsSetAside(t *testing.T) {
	for name, damage := range map[string]func(string){
		"garbage":   func(p string) { must(t, os.WriteFile(p, bytes.Repeat([]byte("no database "), 1000), 0o600)) },
		"truncated": func(p string) { must(t, os.Truncate(p, 5000)) },
		"scrambled": func(p string) {
			f, err := os.OpenFile(p, os.O_RDWR, 0)
			must(t, err)
			defer f.Close()
			_, err = f.WriteAt(bytes.Repeat([]byte{0xff}, 6000), 4096)
			must(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, nil)
			for i := range 50 {
				_, err := s.StatePut(ctx, "p", 1, fmt.Sprint(i), bytes.Repeat([]byte("v"), 1000), false)
				must(t, err)
			}
			must(t, s.Close())
			path := filepath.Join(dir, FileName)
			damage(path)
			before, err := os.ReadFile(path)
			must(t, err)
			s = open(t, dir, nil)
			if w := s.Warnings(); len(w) != 1 || w[0].Ref != fault.StoreUnreadable || !strings.Contains(w[0].Message, ".unreadable-") {
				t.Fatalf("warnings: %v", w)
			}
			aside, err := filepath.Glob(path + ".unreadable-*")
			must(t, err)
			if len(aside) != 1 {
				t.Fatalf("set aside: %v", aside)
			}
			after, err := os.ReadFile(aside[0])
			must(t, err)
			if !bytes.Equal(before, after) {
				t.Error("the file that was set aside was changed")
			}
			_, err = s.StatePut(ctx, "p", 1, "k", []byte("v"), false)
			must(t, err)
		})
	}
}

func TestNewerAndForeignFilesAreLeftAlone(t *testing.T) {
	for name, script := range map[string]string{
		"newer":   fmt.Sprintf("PRAGMA user_version=%d", len(migrations)+1),
		"foreign": "PRAGMA application_id=7; CREATE TABLE IF NOT EXISTS theirs (x)",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, nil)
			must(t, s.Close())
			path := filepath.Join(dir, FileName)
			db, err := driver.Open("file:" + path)
			must(t, err)
			_, err = db.Exec(script)
			must(t, err)
			must(t, db.Close())
			before, err := os.ReadFile(path)
			must(t, err)
			_, err = Open(ctx, Options{Dir: dir})
			wantRef(t, err, fault.StoreUnreadable)
			after, err := os.ReadFile(path)
			must(t, err)
			if !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
			if aside, _ := filepath.Glob(path + ".unreadable-*"); len(aside) > 0 {
				t.Errorf("set aside: %v", aside)
			}
		})
	}
}

func TestMethodsEndWithTheirContextAndAfterClose(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.StatePut(gone, "p", 1, "k", nil, false); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled put: %v", err)
	}
	// A writer that is held up makes others end at their deadline.
	held, err := s.write.BeginTx(ctx, nil)
	must(t, err)
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := s.StatePut(short, "p", 1, "k", nil, false); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("put behind a held writer: %v", err)
	}
	if _, err := s.StateGet(ctx, "p", "k"); err != nil {
		t.Errorf("a read waits for the writer: %v", err)
	}
	must(t, held.Rollback())
	must(t, s.Close())
	must(t, s.Close())
	_, err = s.StatePut(ctx, "p", 1, "k", nil, false)
	wantRef(t, err, fault.HostStopping)
	_, err = s.AuditTail(ctx, 0, 1)
	wantRef(t, err, fault.HostStopping)
	wantRef(t, s.AuditFlush(ctx), fault.HostStopping)
	s.Audit(AuditRow{}) // must neither panic nor block
	if s.AuditDropped() != 1 {
		t.Error("a row after Close is not counted as dropped")
	}
}

// count reads one number.
func count(t *testing.T, db *sql.DB, query string) int {
	t.Helper()
	var n int
	must(t, db.QueryRow(query).Scan(&n))
	return n
}
