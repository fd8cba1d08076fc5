package e2e

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

func (w *world) openQuestions() []api.Question {
	w.t.Helper()
	var list []api.Question
	if err := json.Unmarshal([]byte(w.ok("questions", "--json")), &list); err != nil {
		w.t.Fatal(err)
	}
	return list
}

// A parked call survives its plugin and its host, and goes on with the answer.
func TestQuestionSurvivesPluginAndHost(t *testing.T) {
	w := newWorld(t, instance("fx", "  config {\n    greeting = \"good day\"\n  }\n"), "fixture")
	w.serve()
	call := []string{"call", "--session", "talk", "fx_ask", `{"big":9007199254740993,"z":1,"a":2}`}
	w.fails(1, []string{"q_", "--session talk"}, call...)
	open := w.openQuestions()
	if len(open) != 1 || open[0].Kind != "form" || open[0].Message != "What is your name?" {
		t.Fatalf("open questions: %+v", open)
	}
	before := w.plugin("fx")
	if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testbin.Await(t, 10*time.Second, "the plugin to be back", func() bool {
		p := w.plugin("fx")
		return p.State == "ready" && p.Generation > before.Generation
	})
	w.kill()
	w.serve()
	if again := w.openQuestions(); len(again) != 1 || again[0].ID != open[0].ID {
		t.Fatalf("after the restart: %+v", again)
	}
	w.fails(1, []string{"name"}, "answer", open[0].ID, `{"name":7}`) // never coerced
	w.ok("answer", open[0].ID, "name=Ada")
	testbin.Await(t, 10*time.Second, "the word in the inbox", func() bool { return strings.Contains(w.ok("inbox", "--session", "talk"), "fx_ask was answered") })
	out := w.ok(call...)
	if want := `good day Ada, state kept, arguments {"big":9007199254740993,"z":1,"a":2}`; !strings.Contains(out, want) {
		t.Errorf("got %q, want %q", out, want)
	}
	if left := w.openQuestions(); len(left) != 0 {
		t.Errorf("still open: %+v", left)
	}
	if inbox := w.ok("inbox", "--session", "talk"); strings.Contains(inbox, "fx_ask") {
		t.Errorf("the inbox keeps what its caller has: %q", inbox)
	}
	w.fails(1, []string{"BH1014"}, "answer", open[0].ID, "name=Eve")
}

func TestApproval(t *testing.T) {
	w := newWorld(t, instance("fx", ""), "fixture")
	w.serve()
	call := []string{"call", "--session", "s1", "fx_guarded", "name=Ada"}

	t.Run("approve permits once", func(t *testing.T) {
		w.fails(1, []string{"q_"}, call...)
		q := w.openQuestions()[0]
		if q.Kind != "approval" || !strings.Contains(q.Message, "Ada") {
			t.Errorf("question: %+v", q)
		}
		w.fails(1, []string{"BH1003"}, "answer", q.ID, "name=x")
		w.ok("approve", q.ID)
		w.fails(1, []string{"q_"}, "call", "--session", "s1", "fx_guarded", "name=Eve") // other arguments
		if out := w.ok(call...); !strings.Contains(out, "ran for Ada") {
			t.Errorf("got %q", out)
		}
		w.fails(1, []string{"q_"}, call...) // the permit is spent
		for _, q := range w.openQuestions() {
			w.ok("deny", q.ID, "--reason", "enough")
		}
	})
	t.Run("unknown id", func(t *testing.T) {
		w.fails(1, []string{"BH1013"}, "approve", "q_nothing")
	})
}
