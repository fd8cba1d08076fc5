package task

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of one task.
const (
	MaxName        = 100      // runes
	MaxDescription = 8 << 10  // bytes
	MaxArguments   = 64 << 10 // bytes of JSON
	MaxURL         = 2 << 10
	MaxHistory     = 10 // runs kept
	MaxQueue       = 10 // fires that wait for the one that runs
	MaxMissed      = 100
	MinEvery       = time.Second
)

// What a task does about fires that it missed.
const (
	Skip    = "skip"     // none of them
	RunOnce = "run_once" // one for all of them
	RunAll  = "run_all"  // each, up to the limit
)

// What it does when it is due while it still runs.
const (
	OverlapSkip     = "skip"
	OverlapQueue    = "queue"
	OverlapParallel = "parallel"
)

// Kinds of action.
const (
	Prompt  = "prompt"
	Tool    = "tool"
	Webhook = "webhook"
)

// InboxSession has fires told in the session that scheduled the task, while it lasts.
const InboxSession = "session"

// Action is what a fire does.
type Action struct {
	Kind      string          `json:"kind"`
	Tool      string          `json:"tool,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	URL       string          `json:"url,omitempty"`
}

// Spec is what the owner asked for.
type Spec struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// When: exactly one.
	Cron  string        `json:"cron,omitempty"`
	Every time.Duration `json:"every,omitempty"`
	At    time.Time     `json:"at,omitzero"`

	Zone        string        `json:"time_zone,omitempty"` // empty = the plugin's own
	Once        bool          `json:"run_once,omitempty"`
	Missed      string        `json:"missed"`
	MissedLimit int           `json:"missed_limit,omitempty"`
	Overlap     string        `json:"overlap"`
	Jitter      time.Duration `json:"jitter,omitempty"`
	Until       time.Time     `json:"until,omitzero"`
	Inbox       string        `json:"inbox,omitempty"` // session = where it was scheduled; else patrol/{slug}
	Action      Action        `json:"action"`
}

// Task is a task with all that is kept of it.
type Task struct {
	ID      string `json:"id"`
	Owner   string `json:"owner"`   // agent
	Profile string `json:"profile"` // of the handle it runs by
	Session string `json:"session"` // handle of the session it was scheduled in
	Spec
	Created time.Time `json:"created"`

	Paused string    `json:"paused,omitempty"` // why; empty = it isn't
	Last   time.Time `json:"last"`             // everything due until then is dealt with
	Spent  bool      `json:"spent,omitempty"`  // a run_once task that has fired
	Owed   []Fire    `json:"owed,omitempty"`   // intended, without an outcome
	Runs   []Run     `json:"runs,omitempty"`   // the latest, oldest first
	Fired  int       `json:"fired"`
}

// Fire is one time a task is due. It is written down before it is delivered.
type Fire struct {
	ID     string    `json:"id"`
	Due    time.Time `json:"due"`
	Manual bool      `json:"manual,omitempty"` // asked for by hand
	Begun  time.Time `json:"begun,omitzero"`   // its delivery; zero = it waits
	Missed int       `json:"missed,omitempty"` // how many missed times it stands for
	Again  int       `json:"again,omitempty"`  // deliveries that were begun before and left no outcome
}

// Outcomes of a run.
const (
	OK      = "ok"
	Failed  = "failed"
	Skipped = "skipped"
	Waiting = "waiting" // for an approval or an answer
)

// Run is what became of a fire.
type Run struct {
	ID      string    `json:"id"`
	Due     time.Time `json:"due,omitzero"`
	Begun   time.Time `json:"begun,omitzero"`
	Ended   time.Time `json:"ended"`
	Outcome string    `json:"outcome"`
	Detail  string    `json:"detail,omitempty"`
	Again   bool      `json:"may_have_run_before,omitempty"`
	Manual  bool      `json:"manual,omitempty"`
	Count   int       `json:"count,omitempty"` // of skipped times, where there are more
}

// Note adds a run to the history.
func (t *Task) Note(r Run) {
	r.Detail = clip(r.Detail, 500)
	t.Runs = append(t.Runs, r)
	if over := len(t.Runs) - MaxHistory; over > 0 {
		t.Runs = append([]Run(nil), t.Runs[over:]...)
	}
}

// Clone is a copy that shares nothing that changes.
func (t *Task) Clone() *Task {
	c := *t
	c.Owed = append([]Fire(nil), t.Owed...)
	c.Runs = append([]Run(nil), t.Runs...)
	return &c
}

// Key is a name as it is compared: without case and outer blanks.
func Key(name string) string { return strings.ToLower(strings.TrimSpace(name)) }

// Slug is a name as a part of the session patrol/{slug}: letters, digits and dashes.
func Slug(name string) string {
	var b strings.Builder
	for _, r := range Key(name) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '_':
			b.WriteRune(r)
		default:
			if s := b.String(); s != "" && !strings.HasSuffix(s, "-") {
				b.WriteByte('-')
			}
		}
		if b.Len() >= 48 {
			break
		}
	}
	return strings.Trim(b.String(), "-")
}

// Single reports whether the task fires a single time.
func (s *Spec) Single() bool { return s.Once || !s.At.IsZero() }

// Check says what is wrong with a spec beyond its times.
func (s *Spec) Check() error {
	switch {
	case strings.TrimSpace(s.Name) == "":
		return fmt.Errorf("a task needs a name")
	case utf8.RuneCountInString(s.Name) > MaxName, strings.ContainsAny(s.Name, "\n\r\t"):
		return fmt.Errorf("a name has one line of at most %d characters", MaxName)
	case strings.TrimSpace(s.Description) == "":
		return fmt.Errorf("a task needs a description: it is what the agent reads when it fires")
	case len(s.Description) > MaxDescription:
		return fmt.Errorf("a description has at most %d bytes, not %d", MaxDescription, len(s.Description))
	case len(s.Action.Arguments) > MaxArguments:
		return fmt.Errorf("arguments have at most %d bytes, not %d", MaxArguments, len(s.Action.Arguments))
	case len(s.Action.URL) > MaxURL:
		return fmt.Errorf("an address has at most %d bytes", MaxURL)
	case s.Every != 0 && s.Every < MinEvery:
		return fmt.Errorf("every %s is too often; at least %s", s.Every, MinEvery)
	case s.Jitter < 0 || s.Jitter > 24*time.Hour:
		return fmt.Errorf("a jitter is at most 24h, not %s", s.Jitter)
	case s.Missed != Skip && s.Missed != RunOnce && s.Missed != RunAll:
		return fmt.Errorf("missed is skip, run_once or run_all, not %.40q", s.Missed)
	case s.Overlap != OverlapSkip && s.Overlap != OverlapQueue && s.Overlap != OverlapParallel:
		return fmt.Errorf("overlap is skip, queue or parallel, not %.40q", s.Overlap)
	case s.Inbox != "" && s.Inbox != "patrol" && s.Inbox != InboxSession:
		return fmt.Errorf("inbox is patrol or session, not %.40q", s.Inbox)
	case s.Action.Kind != Prompt && s.Action.Kind != Tool && s.Action.Kind != Webhook:
		return fmt.Errorf("an action is prompt, tool or webhook, not %.40q", s.Action.Kind)
	case s.MissedLimit < 0 || s.MissedLimit > MaxMissed:
		return fmt.Errorf("missed_limit is a number from 1 to %d, not %d", MaxMissed, s.MissedLimit)
	}
	when := 0
	for _, set := range []bool{s.Cron != "", s.Every != 0, !s.At.IsZero()} {
		if set {
			when++
		}
	}
	if when != 1 {
		return fmt.Errorf(`a task has exactly one of cron ("0 9 * * 1-5"), every ("30m") and at ("2h", "2026-05-01T09:00"), not %d`, when)
	}
	return nil
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
