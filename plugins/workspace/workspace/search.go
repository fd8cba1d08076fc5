package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/bulkhead-dev/bulkhead/plugins/workspace/search"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

const (
	usualMatches = 100
	mostMatches  = 1000
)

type searchArgs struct {
	Pattern    string   `json:"pattern" doc:"Regular expression (RE2), matched line by line."`
	Path       string   `json:"path,omitempty" doc:"Folder or file to search; the first workspace without it."`
	Globs      []string `json:"globs,omitempty" doc:"Files to search, such as *.go or src/**; with ! in front, files to leave out."`
	Literal    bool     `json:"literal,omitempty" doc:"The pattern is plain text."`
	IgnoreCase bool     `json:"ignore_case,omitempty" doc:"Upper and lower case are the same."`
	Context    int      `json:"context,omitempty" doc:"Lines to show before and after each match, at most 20."`
	Hidden     bool     `json:"hidden,omitempty" doc:"Also hidden files."`
	NoIgnore   bool     `json:"no_ignore,omitempty" doc:"Also what ignore files such as .gitignore leave out."`
	FilesOnly  bool     `json:"files_only,omitempty" doc:"Only the paths of files with a match."`
	MaxMatches int      `json:"max_matches,omitempty" doc:"Matches to give, 100 without it and 1000 at most."`
}

func (f *files) searchTool() *sdk.Tool {
	return sdk.NewTool("search_files",
		"Searches the lines of all text files for a regular expression. What .gitignore and its kin leave out, hidden files and binary files are not searched.",
		f.search, sdk.WithTitle("Search files"), sdk.WithTier(sdk.Standard), sdk.WithGroup("workspace"), sdk.WithSource("filesystem"),
		sdk.WithAliases("file_search"), sdk.ReadOnly())
}

func (f *files) search(ctx context.Context, _ *sdk.Call, in searchArgs) (sdk.Result, error) {
	p, done, err := f.place(in.Path)
	if err != nil {
		return sdk.Result{}, err
	}
	defer done()
	r, err := search.Search(ctx, p.Root(), p.rel, search.Query{Pattern: in.Pattern, Literal: in.Literal, IgnoreCase: in.IgnoreCase,
		Globs: in.Globs, Hidden: in.Hidden, All: in.NoIgnore, Linked: p.Linked, Before: in.Context, After: in.Context})
	switch {
	case ctx.Err() != nil:
		return sdk.Result{}, sdk.Errorf(sdk.Timeout, "the search of %q took too long after %d files; name a folder or globs", p, r.Searched)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return sdk.Result{}, p.failure(err)
	case err != nil:
		return sdk.Result{}, sdk.Errorf(sdk.InvalidArguments, "%v", err)
	}
	limit := in.MaxMatches
	if limit <= 0 {
		limit = usualMatches
	}
	return sdk.TextResult(report(p.space, r, min(limit, mostMatches), in.FilesOnly)), nil
}

// report writes what was found, file by file.
func report(s *space, r search.Result, limit int, filesOnly bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s in %s (%d searched", count(r.Total, "matching line"), count(r.Files, "file"), r.Searched)
	if r.Binary > 0 {
		fmt.Fprintf(&b, ", %d of them no text", r.Binary)
	}
	if r.Failed > 0 {
		fmt.Fprintf(&b, ", %d could not be read", r.Failed)
	}
	if r.Linked > 0 {
		fmt.Fprintf(&b, ", %d left out: they have several names (hard links)", r.Linked)
	}
	b.WriteString(")\n")
	shown, at, last := 0, "", 0
	for _, m := range r.Matches {
		if shown == limit {
			break
		}
		if m.Path != at {
			at, last = m.Path, 0
			if filesOnly {
				b.WriteString(s.show(at) + "\n")
				shown++
				continue
			}
			fmt.Fprintf(&b, "\n%s\n", s.show(at))
		} else if filesOnly {
			continue
		}
		shown++
		first := m.Line - len(m.Before)
		if last > 0 && first > last+1 && len(m.Before)+len(m.After) > 0 {
			b.WriteString("--\n")
		}
		for i, text := range m.Before {
			if n := first + i; n > last {
				fmt.Fprintf(&b, "%d- %s\n", n, text)
			}
		}
		if m.Line > last {
			fmt.Fprintf(&b, "%d: %s\n", m.Line, m.Text)
		}
		last = max(last, m.Line)
		for i, text := range m.After {
			if n := m.Line + 1 + i; n > last && !matchedAt(r.Matches, at, n) {
				fmt.Fprintf(&b, "%d- %s\n", n, text)
				last = n
			} else if n > last {
				break // the next match writes it
			}
		}
	}
	if all := r.Total; !filesOnly && all > shown {
		b.WriteString("\n" + more(shown, all))
	} else if filesOnly && r.Files > shown {
		b.WriteString("\n" + more(shown, r.Files))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// matchedAt says whether a line of a file is a match itself.
func matchedAt(all []search.Match, path string, line int) bool {
	for lo, hi := 0, len(all); lo < hi; {
		mid := (lo + hi) / 2
		switch m := all[mid]; {
		case m.Path == path && m.Line == line:
			return true
		case m.Path < path || (m.Path == path && m.Line < line):
			lo = mid + 1
		default:
			hi = mid
		}
	}
	return false
}

// more says that not all is shown.
func more(shown, all int) string {
	return fmt.Sprintf("[%d of %d are shown; narrow it down by path or globs to see others]", shown, all)
}
