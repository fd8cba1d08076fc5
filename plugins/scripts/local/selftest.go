//go:build unix

package local

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/scripts/run"
)

//go:embed selftest.py
var selftest string

// testTime is what the trial run may take.
const testTime = 20 * time.Second

// test runs a script that tries the walls. What it can do that it must not, or can't
// that it must, is the error: then no other script is run.
func (r *Runner) test(ctx context.Context) error {
	if r.walls.name == Unwalled {
		return nil // there are none
	}
	language := run.Python
	if r.o.Interpreters[language] == "" {
		return nil // the walls are the same, and there is nobody to try them
	}
	box, err := r.start(ctx, run.Spec{Language: language, Limits: r.o.Limits})
	if err != nil {
		return err
	}
	got, err := box.run(ctx, run.Spec{Language: language, Script: []byte(selftest), Timeout: testTime, Limits: r.o.Limits, OutFiles: 1, OutBytes: 1 << 20})
	if err != nil {
		return &run.Failure{Runner: r.Name(), Reason: err.Error()}
	}
	if out := strings.TrimSpace(string(got.Stdout)); out != "ok" {
		return &run.Failure{Runner: r.Name(), Reason: fmt.Sprintf("the trial run shows that the walls do not hold (%s, exit %d): %.500s %.500s", got.Cause, got.Exit, out, got.Stderr)}
	}
	return nil
}
