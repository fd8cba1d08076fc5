package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/testbin"
)

// instance is a block for one instance of the fixture.
func instance(name, more string) string {
	return fmt.Sprintf("plugin %q {\n  binary = \"bulkhead-plugin-fixture\"\n  env    = { FIXTURE_PREFIX = %q }\n%s}\n", name, name, more)
}

// nest is the arguments that make prefix a call through the chain to its end.
func nest(end string, args string, chain ...string) string {
	call := args
	target := end
	for i := len(chain) - 1; i >= 0; i-- {
		call = fmt.Sprintf(`{"tool":%q,"arguments":%s}`, target, call)
		target = chain[i]
	}
	return call
}

func TestNestedCalls(t *testing.T) {
	var hcl strings.Builder
	for _, n := range []string{"a", "b", "c", "d", "e"} {
		hcl.WriteString(instance(n, "  grants = [\"tool:*\"]\n"))
	}
	hcl.WriteString(instance("poor", ""))
	hcl.WriteString(instance("narrow", "  grants = [\"tool:*\"]\n  limits {\n    calls = 2\n    queue = 4\n  }\n"))
	hcl.WriteString(instance("tight", "  grants = [\"tool:*\"]\n  limits {\n    calls = 2\n    queue = 4\n  }\n"))
	w := newWorld(t, hcl.String(), "fixture")
	w.serve()

	t.Run("through another plugin", func(t *testing.T) {
		out := w.ok("call", "a_nest", nest("b_echo", `{"n":9007199254740993}`, "a_nest"))
		if !strings.Contains(out, "9007199254740") {
			t.Errorf("got %s", out)
		}
	})
	t.Run("an internal tool by grant", func(t *testing.T) {
		if out := w.ok("call", "a_nest", `{"tool":"b_hidden","arguments":{}}`); !strings.Contains(out, "hidden") {
			t.Errorf("got %s", out)
		}
		w.fails(1, []string{"b_hidden"}, "call", "b_hidden")
		if out := w.ok("call", "--internal", "b_hidden"); !strings.Contains(out, "hidden") {
			t.Errorf("got %s", out)
		}
	})
	t.Run("missing grant", func(t *testing.T) {
		w.fails(1, []string{"BH5002", `grants = ["tool:a_echo"]`}, "call", "poor_nest", `{"tool":"a_echo","arguments":{}}`)
	})
	t.Run("a cycle", func(t *testing.T) {
		w.ok("call", "a_nest", nest("a_echo", `{}`, "a_nest", "b_nest"))
		w.fails(1, []string{"BH5003"}, "call", "a_nest", nest("a_echo", `{}`, "a_nest", "b_nest", "a_nest", "b_nest"))
	})
	t.Run("depth nine", func(t *testing.T) {
		chain := []string{"a_nest", "b_nest", "c_nest", "d_nest", "e_nest", "a_nest", "b_nest"}
		w.ok("call", "a_nest", nest("c_echo", `{}`, chain...))
		w.fails(1, []string{"BH5004"}, "call", "a_nest", nest("d_echo", `{}`, append(chain, "c_nest")...))
	})
	t.Run("a cancelled root", func(t *testing.T) {
		begin := time.Now()
		w.fails(1, []string{"BH1005"}, "call", "--timeout", "500ms", "a_nest", `{"tool":"b_slow","arguments":{"ms":60000}}`)
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("took %s", took)
		}
		testbin.Await(t, 15*time.Second, "both calls to end", func() bool {
			return w.plugin("a").InFlight == 0 && w.plugin("b").InFlight == 0
		})
	})
	t.Run("full slots on both sides", func(t *testing.T) {
		// Each side calls the other until no slot is left; everyone must come back.
		var wg sync.WaitGroup
		results := make(chan string, 12)
		for i := range 12 {
			from, to := "narrow", "tight"
			if i%2 == 1 {
				from, to = to, from
			}
			wg.Go(func() {
				out, errOut, _ := w.run("call", from+"_nest", fmt.Sprintf(`{"tool":"%s_slow","arguments":{"ms":800}}`, to))
				results <- out + errOut
			})
		}
		wg.Wait()
		close(results)
		done := 0
		for r := range results {
			switch {
			case strings.Contains(r, "done"):
				done++
			case strings.Contains(r, "BH2018"), strings.Contains(r, "BH2008"):
			default:
				t.Errorf("unexpected end: %s", clip(r))
			}
		}
		if done == 0 {
			t.Error("no call came through")
		}
		testbin.Await(t, 10*time.Second, "all slots to be free", func() bool {
			return w.plugin("narrow").InFlight == 0 && w.plugin("tight").InFlight == 0
		})
	})
}
