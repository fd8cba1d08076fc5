package workspace

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bulkhead-dev/bulkhead/plugins/workspace/history"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

type revertArgs struct {
	Path    string `json:"path" doc:"The file."`
	Version int    `json:"version,omitempty" doc:"Version to bring back; without it the one before the last change."`
	List    bool   `json:"list,omitempty" doc:"Only say which versions there are."`
}

func (f *files) revertTool() *sdk.Tool {
	return sdk.NewTool("revert_file",
		"Brings back what a file held before a change made here, also when it was deleted. The change can be undone the same way.",
		f.revert, sdk.WithTitle("Restore a file"), sdk.WithTier(sdk.Standard), sdk.WithGroup("workspace"), sdk.WithSource("filesystem"),
		sdk.WithAliases("file_revert"), sdk.WithExposure(sdk.Fit), sdk.Unshaped())
}

func (f *files) revert(ctx context.Context, _ *sdk.Call, in revertArgs) (sdk.Result, error) {
	p, done, err := f.place(in.Path)
	if err != nil {
		return sdk.Result{}, err
	}
	defer done()
	if in.List {
		return sdk.TextResult(p.versions()), nil
	}
	v, raw, err := p.history.Get(p.rel, in.Version)
	if errors.Is(err, history.ErrNone) {
		return sdk.Result{}, sdk.Errorf(sdk.NotFound, "%q: %v; %s", p, err, p.versions())
	}
	if err != nil {
		return sdk.Result{}, p.failure(err)
	}
	if v.Absent {
		err := p.Remove(p.rel, func(old []byte) error {
			if old == nil {
				old = []byte{}
			}
			_, err := p.history.Save(p.rel, "revert", old)
			return err
		})
		if err != nil {
			return sdk.Result{}, p.failure(err)
		}
		return sdk.Textf("%s is gone, as before it was made", p), nil
	}
	old, fresh, err := p.change(ctx, "revert", func([]byte) ([]byte, error) { return raw, nil })
	if err != nil {
		return sdk.Result{}, err
	}
	return changed(fmt.Sprintf("%s holds what it did before: %s", p, v.Describe()), p, old, fresh), nil
}

// versions lists what is kept of a file.
func (p place) versions() string {
	all := p.history.List(p.rel)
	if len(all) == 0 {
		return "nothing is kept of it: it was not changed here"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "kept of %s, the newest first:", p)
	for _, v := range all {
		b.WriteString("\n- " + v.Describe())
	}
	return b.String()
}
