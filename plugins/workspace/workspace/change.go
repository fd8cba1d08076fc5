package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/bulkhead-dev/bulkhead/plugins/workspace/document"
	"github.com/bulkhead-dev/bulkhead/plugins/workspace/ledger"
	"github.com/bulkhead-dev/bulkhead/plugins/workspace/tree"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// mostTries is how often a change is made again because the file was changed by
// somebody else meanwhile.
const mostTries = 20

// change replaces a file, keeping what it held. make gives the new bytes for the old
// (nil = no file), or errUnchanged when there is nothing to do. What others do to the
// file meanwhile is never overwritten: make is asked again about what is there then.
func (p place) change(ctx context.Context, kind string, make func(old []byte) ([]byte, error)) (old, fresh []byte, err error) {
	var kept []byte // what a try before this one kept
	again := false
	for range mostTries {
		err = p.Change(p.rel, func(before []byte) ([]byte, error) {
			after, err := make(before)
			if err != nil {
				return nil, err
			}
			if err := p.room(int64(len(after) - len(before))); err != nil {
				return nil, err
			}
			old, fresh = before, after
			if again && bytes.Equal(kept, before) && (kept == nil) == (before == nil) {
				return after, nil
			}
			_, err = p.history.Save(p.rel, kind, before)
			kept, again = before, true
			return after, err
		})
		if !errors.Is(err, tree.ErrChanged) || ctx.Err() != nil {
			break
		}
	}
	if errors.Is(err, errUnchanged) {
		return old, fresh, err
	}
	return old, fresh, p.failure(err)
}

type writeArgs struct {
	Path    string `json:"path" doc:"The file; its folders are made."`
	Content string `json:"content" doc:"All it is to hold."`
}

func (f *files) writeTool() *sdk.Tool {
	return sdk.NewTool("write_file",
		"Writes a whole text file. A file that exists must have been read in full first; to change a part of it, edit_file is better.",
		f.write, sdk.WithTitle("Write a file"), sdk.WithTier(sdk.Standard), sdk.WithGroup("workspace"), sdk.WithSource("filesystem"),
		sdk.WithAliases("file_write"), sdk.Unshaped())
}

func (f *files) write(ctx context.Context, call *sdk.Call, in writeArgs) (sdk.Result, error) {
	if isNull(call.Arguments, "content") {
		return sdk.Result{}, sdk.Errorf(sdk.InvalidArguments, "content is null; an empty file is written with \"\"")
	}
	p, done, err := f.place(in.Path)
	if err != nil {
		return sdk.Result{}, err
	}
	defer done()
	who, name := reader(call), p.String()
	old, fresh, err := p.change(ctx, "write", func(old []byte) ([]byte, error) {
		form := document.Document{}
		if old != nil {
			if err := f.ledger.Check(who, name, ledger.Of(old)); err != nil && len(old) > 0 {
				return nil, sdk.Errorf(sdk.Conflict, "%q is not overwritten: %v. A copy under another name would only hide the change", p, err)
			}
			if d, err := document.Decode(old); err == nil {
				form = d // the new text is written in the same encoding
			}
		}
		return form.Encode(in.Content)
	})
	if err != nil {
		return sdk.Result{}, err
	}
	f.ledger.Knows(who, name, ledger.Of(fresh), document.Lines(in.Content))
	if old == nil {
		return sdk.Textf("wrote %s: a new file of %s, %s", p, count(len(fresh), "byte"), count(document.Lines(in.Content), "line")), nil
	}
	return changed(fmt.Sprintf("wrote %s: %s, %d before", p, count(len(fresh), "byte"), len(old)), p, old, fresh), nil
}

type editArgs struct {
	Path string `json:"path" doc:"The file."`
	Old  string `json:"old_string" doc:"Text of the file that is to be replaced; with enough around it to be there once."`
	New  string `json:"new_string" doc:"What takes its place; empty to delete it."`
	All  bool   `json:"replace_all,omitempty" doc:"Replace it in every place."`
}

func (f *files) editTool() *sdk.Tool {
	return sdk.NewTool("edit_file",
		"Replaces a piece of a text file. old_string must be there exactly once, or replace_all be set; line ends and encoding stay as they are.",
		f.edit, sdk.WithTitle("Edit a file"), sdk.WithTier(sdk.Standard), sdk.WithGroup("workspace"), sdk.WithSource("filesystem"),
		sdk.WithAliases("file_edit"), sdk.Unshaped())
}

func (f *files) edit(ctx context.Context, call *sdk.Call, in editArgs) (sdk.Result, error) {
	for _, arg := range []string{"old_string", "new_string"} {
		if isNull(call.Arguments, arg) {
			return sdk.Result{}, sdk.Errorf(sdk.InvalidArguments, "%s is null; \"\" is the empty text", arg)
		}
	}
	p, done, err := f.place(in.Path)
	if err != nil {
		return sdk.Result{}, err
	}
	defer done()
	places, lines := 0, 0
	old, fresh, err := p.change(ctx, "edit", func(old []byte) ([]byte, error) {
		if old == nil {
			return nil, sdk.Errorf(sdk.NotFound, "there is no %q%s", p, p.others())
		}
		d, err := document.Decode(old)
		if err != nil {
			return nil, notText(p, old)
		}
		text, n, err := document.Replace(d.Text, in.Old, in.New, in.All)
		if err != nil {
			return nil, sdk.Errorf(sdk.InvalidArguments, "%q: %v", p, err)
		}
		if places, lines = n, document.Lines(text); text == d.Text {
			return nil, errUnchanged
		}
		return d.Encode(text)
	})
	if errors.Is(err, errUnchanged) {
		return sdk.Textf("%s is as it was: old_string and new_string are the same", p), nil
	}
	if err != nil {
		return sdk.Result{}, err
	}
	f.ledger.Edited(reader(call), p.String(), ledger.Of(old), ledger.Of(fresh), lines)
	return changed(fmt.Sprintf("edited %s: %s, %s, %d before", p, count(places, "place"), count(len(fresh), "byte"), len(old)), p, old, fresh), nil
}

type deleteArgs struct {
	Path string `json:"path" doc:"The file."`
}

func (f *files) deleteTool() *sdk.Tool {
	return sdk.NewTool("delete_file", "Deletes a file. revert_file brings it back.",
		f.delete, sdk.WithTitle("Delete a file"), sdk.WithTier(sdk.Standard), sdk.WithGroup("workspace"), sdk.WithSource("filesystem"),
		sdk.WithAliases("file_delete"), sdk.WithExposure(sdk.Fit))
}

func (f *files) delete(_ context.Context, _ *sdk.Call, in deleteArgs) (sdk.Result, error) {
	p, done, err := f.place(in.Path)
	if err != nil {
		return sdk.Result{}, err
	}
	defer done()
	err = p.Remove(p.rel, func(old []byte) error {
		if old == nil {
			old = []byte{}
		}
		_, err := p.history.Save(p.rel, "delete", old)
		return err
	})
	if err != nil {
		return sdk.Result{}, p.failure(err)
	}
	return sdk.Textf("deleted %s; revert_file brings it back", p), nil
}

type pathArgs struct {
	Path string `json:"path" doc:"The file."`
}

func (f *files) pathTool() *sdk.Tool {
	return sdk.NewTool("file_get_path", "Gives the real path of a file, for programs that open it themselves.",
		func(_ context.Context, _ *sdk.Call, in pathArgs) (sdk.Result, error) {
			p, done, err := f.place(in.Path)
			if err != nil {
				return sdk.Result{}, err
			}
			defer done()
			if err := p.Proper(p.rel); err != nil {
				return sdk.Result{}, p.failure(err)
			}
			return sdk.TextResult(p.real()), nil
		}, sdk.WithTitle("Real path of a file"), sdk.WithTier(sdk.Standard), sdk.WithGroup("workspace"), sdk.WithSource("filesystem"),
		sdk.WithExposure(sdk.OnDemand), sdk.ReadOnly())
}
