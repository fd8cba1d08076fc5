package bridge

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

// The rows of the facts on the bridge, by their numbers, in words of ours. A row
// has a check here, or names the tests that hold it, or says why it is not for
// this product. Of about half the rows that is a test beside this one: it needs servers
// of its own, and is only looked for here.
type fact struct {
	number, what string
	check        func(t *testing.T, w *rowsWorld)
	held         []string // tests of this plugin
	elsewhere    string   // why there is nothing to hold
}

// rowsWorld is one bridge with servers of several kinds that the checks share.
type rowsWorld struct {
	*sdktest.Session
	bridge *Bridge
}

func startRows(t *testing.T) *rowsWorld {
	t.Helper()
	b := newBridge()
	list := conf{"resource_inline_limit": 100, "allow_hosts": []string{"127.0.0.0/8"}, "surface_refresh": "0s", "server": []conf{
		bad(t, "bad", "rows", "odd"), bad(t, "lean", "tools-only"), bad(t, "empty", "no-resources"), bad(t, "many", "many-resources"), bad(t, "unknown", "prompts=unknown"),
	}}
	w := &rowsWorld{ending(t, sdktest.Start(t, b.plugin, sdktest.Config(list.String()), sdktest.Granted("shared"))), b}
	for _, name := range []string{"bad__strict", "lean__echo", "empty__echo", "many__echo", "unknown__echo"} {
		awaitTool(t, w.Session, name)
	}
	return w
}

const (
	noSkills = "this product keeps no skills; instructions of servers and guides stand in their place"
	noBus    = "no message bus lies between agent and bridge"
	ofAsking = "questions, tasks and handed-back calls have tests of their own"
)

func TestRows(t *testing.T) {
	written := map[string]bool{}
	for _, dir := range []string{".", "../downstream", "../settings", "../naming", "../guard", "../elicit"} {
		files, err := filepath.Glob(dir + "/*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`).FindAllSubmatch(text, -1) {
				written[string(m[1])] = true
			}
		}
	}
	w := startRows(t)
	seen := map[string]bool{}
	checked, held := 0, 0
	for _, rows := range [][]fact{rowsOfManagement, rowsOfLife, rowsOfCalls} {
		for _, r := range rows {
			t.Run(r.number+" "+r.what, func(t *testing.T) {
				if seen[r.number] {
					t.Errorf("row %s stands twice", r.number)
				}
				seen[r.number] = true
				kinds := 0
				switch {
				case r.check != nil:
					checked++
				case len(r.held) > 0:
					held++
				}
				if r.check != nil {
					kinds++
					r.check(t, &rowsWorld{w.Session, w.bridge})
				}
				for _, name := range r.held {
					if kinds++; !written[name] {
						t.Errorf("there is no test %s", name)
					}
				}
				if r.elsewhere != "" {
					kinds++
					t.Log(r.elsewhere)
				}
				if kinds == 0 {
					t.Error("nothing holds this row")
				}
			})
		}
	}
	t.Logf("%d rows are walked: %d are checked here, %d are held by tests that they name and that are in the tree, %d have nothing to hold", len(seen), checked, held, len(seen)-checked-held)
	if len(seen) < 60 {
		t.Errorf("only %d rows are walked", len(seen))
	}
}

// row is a management call's arguments.
func args(pairs ...string) string {
	m := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return string(quote(m))
}
