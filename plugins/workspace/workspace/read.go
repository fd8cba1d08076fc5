package workspace

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/bulkhead-dev/bulkhead/plugins/workspace/document"
	"github.com/bulkhead-dev/bulkhead/plugins/workspace/ledger"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

type readArgs struct {
	Path   string `json:"path" doc:"The file."`
	Offset int    `json:"offset,omitempty" doc:"Line to begin with, from 1."`
	Limit  int    `json:"limit,omitempty" doc:"Lines to give at most."`
}

func (f *files) readTool() *sdk.Tool {
	return sdk.NewTool("read_file",
		"Reads a text file: whole, or a page of whole lines when it is long. Read a file before you overwrite it.",
		f.read, sdk.WithTitle("Read a file"), sdk.WithTier(sdk.Standard), sdk.WithGroup("workspace"), sdk.WithSource("filesystem"),
		sdk.WithAliases("file_read"), sdk.ReadOnly(), sdk.Unshaped())
}

func (f *files) read(_ context.Context, call *sdk.Call, in readArgs) (sdk.Result, error) {
	p, done, err := f.place(in.Path)
	if err != nil {
		return sdk.Result{}, err
	}
	defer done()
	raw, err := p.Read(p.rel)
	if err != nil {
		return sdk.Result{}, p.failure(err)
	}
	d, err := document.Decode(raw)
	if err != nil {
		return sdk.Result{}, notText(p, raw)
	}
	if in.Offset < 0 || in.Limit < 0 {
		return sdk.Result{}, sdk.Errorf(sdk.InvalidArguments, "offset and limit count lines; they are not below zero")
	}
	page, err := document.PageOf(d.Text, in.Offset, in.Limit, f.conf.Get().ReadMaxChars)
	if err != nil {
		return sdk.Result{}, sdk.Errorf(sdk.InvalidArguments, "%q: %v", p, err)
	}
	if !page.Cut {
		f.ledger.Saw(reader(call), p.String(), ledger.Of(raw), page.First, page.Last, page.Total)
	}
	switch {
	case page.Total == 0:
		return sdk.Textf("[read_file %s: the file is empty]", p), nil
	case page.Whole:
		return sdk.TextResult(page.Text), nil
	}
	return sdk.TextResult(framed(p, page)), nil
}

// framed is a page with what it is of, and how to go on.
func framed(p place, page document.Page) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[read_file %s: lines %d–%d of %d]\n%s", p, page.First, page.Last, page.Total, page.Text)
	if !strings.HasSuffix(page.Text, "\n") {
		b.WriteByte('\n')
	}
	switch next := page.Next(); {
	case page.Cut:
		fmt.Fprintf(&b, "[line %d is longer than a page; this is its beginning, and the line does not count as read", page.First)
		if next > 0 {
			fmt.Fprintf(&b, "; call read_file with offset=%d for what follows", next)
		}
		b.WriteString("]")
	case next == 0:
		b.WriteString("[end of file]")
	case page.Budget:
		fmt.Fprintf(&b, "[the page is full; call read_file with offset=%d to go on]", next)
	default:
		fmt.Fprintf(&b, "[the limit is reached; call read_file with offset=%d to go on]", next)
	}
	return b.String()
}

// notText says what can be done with a file that is no text.
func notText(p place, raw []byte) error {
	switch strings.ToLower(path.Ext(p.rel)) {
	case ".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".pdf":
		return sdk.Errorf(sdk.InvalidArguments, "%q is no text (%d bytes); analyze_file can look at it where it is offered", p, len(raw))
	}
	return sdk.Errorf(sdk.InvalidArguments, "%q (%d bytes): %v", p, len(raw), document.ErrBinary)
}

var errUnchanged = errors.New("unchanged")
