package sdktest

import (
	"context"
	"strings"
	"testing"

	"github.com/bulkhead-dev/bulkhead/sdk"
)

// The case of calls before Activate finds a plugin that is not ready for them, and
// leaves one alone that opens what it needs, or says that it is too early.
func TestCallsBeforeActivate(t *testing.T) {
	plugin := func(answer func(opened *string) (sdk.Result, error)) *sdk.Plugin {
		var opened *string
		return &sdk.Plugin{
			Name: "early", Version: "1.0.0",
			Activate: func(context.Context) error {
				opened = new(string)
				return nil
			},
			Tools: []*sdk.Tool{sdk.NewTool("early_read", "Reads what Activate opens.", func(context.Context, *sdk.Call, struct{}) (sdk.Result, error) {
				return answer(opened)
			}, sdk.ReadOnly())},
		}
	}
	for name, c := range map[string]struct {
		answer func(*string) (sdk.Result, error)
		fault  string
	}{
		"panics":   {func(opened *string) (sdk.Result, error) { return sdk.TextResult(*opened), nil }, `"early_read", called before Activate`},
		"for good": {func(*string) (sdk.Result, error) { return sdk.Result{}, sdk.Errorf(sdk.Unavailable, "not open") }, "unavailable for good"},
		"answers":  {func(*string) (sdk.Result, error) { return sdk.TextResult("opened by itself"), nil }, ""},
		"too early": {func(opened *string) (sdk.Result, error) {
			if opened == nil {
				return sdk.Result{}, sdk.Errorf(sdk.Unavailable, "not open yet").After(0)
			}
			return sdk.TextResult("open"), nil
		}, ""},
	} {
		r := &recorder{}
		r.run(func() { callsBeforeActivate(r, Start(r, plugin(c.answer), Unconfigured())) })
		said := strings.Join(r.lines, "\n")
		if r.Failed() != (c.fault != "") || !strings.Contains(said, c.fault) {
			t.Errorf("%s: failed %v:\n%s", name, r.Failed(), said)
		}
	}
}
