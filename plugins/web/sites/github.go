package sites

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// GitHub reads issues and pull requests with their comments, the changes of a
// pull request, files and releases.
type GitHub struct {
	API   string // address of the interface
	Token string // may be empty: public repositories, sixty requests an hour
}

// perPage is how many comments or releases are read; there is no second page.
const perPage = 100

// Match knows /o/r/issues/N, /o/r/pull/N[/files], /o/r/blob/ref/path,
// /o/r/releases, /o/r/releases/latest and /o/r/releases/tag/T.
func (g GitHub) Match(u *url.URL) func(context.Context, Get) (Page, error) {
	s := segments(u)
	if !isHost(u, "github.com") || len(s) < 3 {
		return nil
	}
	for _, name := range s[:2] {
		if !repoName.MatchString(name) {
			return nil
		}
	}
	repo := s[0] + "/" + s[1]
	switch {
	case s[2] == "issues" && len(s) >= 4 && isNumber(s[3]):
		return func(ctx context.Context, get Get) (Page, error) { return g.thread(ctx, get, repo, s[3], "issues") }
	case s[2] == "pull" && len(s) >= 4 && isNumber(strings.TrimSuffix(strings.TrimSuffix(s[3], ".diff"), ".patch")):
		number := strings.TrimSuffix(strings.TrimSuffix(s[3], ".diff"), ".patch")
		if number != s[3] || (len(s) > 4 && s[4] == "files") {
			return func(ctx context.Context, get Get) (Page, error) { return g.diff(ctx, get, repo, number) }
		}
		return func(ctx context.Context, get Get) (Page, error) { return g.thread(ctx, get, repo, number, "pulls") }
	case s[2] == "blob" && len(s) >= 5:
		return func(ctx context.Context, get Get) (Page, error) {
			return g.file(ctx, get, repo, s[3], strings.Join(s[4:], "/"), u.Fragment)
		}
	case s[2] == "releases" && len(s) == 3:
		return func(ctx context.Context, get Get) (Page, error) { return g.releases(ctx, get, repo) }
	case s[2] == "releases" && len(s) == 4 && s[3] == "latest":
		return func(ctx context.Context, get Get) (Page, error) { return g.release(ctx, get, repo, "latest") }
	case s[2] == "releases" && len(s) >= 5 && s[3] == "tag":
		return func(ctx context.Context, get Get) (Page, error) {
			return g.release(ctx, get, repo, "tags/"+url.PathEscape(strings.Join(s[4:], "/")))
		}
	}
	return nil
}

var repoName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

func isNumber(s string) bool {
	n, err := strconv.ParseUint(s, 10, 63)
	return err == nil && n > 0
}

func (g GitHub) address(repo, rest string) string {
	return strings.TrimSuffix(g.API, "/") + "/repos/" + repo + "/" + rest
}

func (g GitHub) header(accept string) http.Header {
	h := http.Header{"Accept": {accept}, "X-Github-Api-Version": {"2022-11-28"}}
	if g.Token != "" {
		h.Set("Authorization", "Bearer "+g.Token)
	}
	return h
}

const githubJSON = "application/vnd.github+json"

type user struct {
	Login string `json:"login"`
}

type thread struct {
	Title, Body, State string
	Number             int
	User               user
	CreatedAt          string `json:"created_at"`
	UpdatedAt          string `json:"updated_at"`
	HTMLURL            string `json:"html_url"`
	Comments           int
	Labels             []struct{ Name string }
	Draft, Merged      bool
	Base, Head         struct{ Label string }
	Additions          int
	Deletions          int
	ChangedFiles       int `json:"changed_files"`
}

type comment struct {
	Body      string
	User      user
	CreatedAt string `json:"created_at"`
}

// thread reads an issue, or a pull request, with its comments.
func (g GitHub) thread(ctx context.Context, get Get, repo, number, kind string) (Page, error) {
	var t thread
	if err := fetchJSON(ctx, get, g.address(repo, kind+"/"+number), g.header(githubJSON), &t); err != nil {
		return Page{}, err
	}
	what, state := "Issue", t.State
	if kind == "pulls" {
		what = "PR"
		switch {
		case t.Merged:
			state = "merged"
		case t.Draft:
			state += " (draft)"
		}
	}
	p := Page{Title: fmt.Sprintf("%s #%s: %s [%s]", what, number, t.Title, repo)}
	var out strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&out, "**%s:** %s  \n", name, value)
		}
	}
	line("Repository", repo)
	line("State", state)
	line("Author", t.User.Login)
	line("Created", t.CreatedAt)
	line("Updated", t.UpdatedAt)
	var labels []string
	for _, l := range t.Labels {
		labels = append(labels, l.Name)
	}
	line("Labels", strings.Join(labels, ", "))
	if kind == "pulls" {
		line("Branches", t.Head.Label+" → "+t.Base.Label)
		line("Changes", fmt.Sprintf("%d files, +%d −%d; the diff is at %s/files", t.ChangedFiles, t.Additions, t.Deletions, t.HTMLURL))
	}
	line("URL", t.HTMLURL)
	out.WriteString("\n---\n\n" + oneOf(t.Body, "(no description)") + "\n")
	if t.Comments > 0 {
		var comments []comment
		err := fetchJSON(ctx, get, g.address(repo, "issues/"+number+"/comments?per_page="+strconv.Itoa(perPage)), g.header(githubJSON), &comments)
		if err != nil {
			p.Note = fmt.Sprintf("its %d comments could not be read: %v", t.Comments, err)
		} else if len(comments) < t.Comments {
			p.Note = fmt.Sprintf("the first %d of %d comments are here", len(comments), t.Comments)
		}
		for _, c := range comments {
			fmt.Fprintf(&out, "\n---\n\n**%s** commented on %s:\n\n%s\n", c.User.Login, c.CreatedAt, c.Body)
		}
	}
	p.Markdown = out.String()
	return p, nil
}

// diff is what a pull request changes.
func (g GitHub) diff(ctx context.Context, get Get, repo, number string) (Page, error) {
	body, err := fetch(ctx, get, g.address(repo, "pulls/"+number), g.header("application/vnd.github.diff"))
	if err != nil {
		return Page{}, err
	}
	return Page{Title: fmt.Sprintf("Changes of PR #%s [%s]", number, repo), Markdown: fenced("diff", string(body))}, nil
}

// file is a file as it is; Markdown stays Markdown, anything else is code.
func (g GitHub) file(ctx context.Context, get Get, repo, ref, name, fragment string) (Page, error) {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	body, err := fetch(ctx, get, g.address(repo, "contents/"+strings.Join(parts, "/")+"?ref="+url.QueryEscape(ref)), g.header("application/vnd.github.raw"))
	if err != nil {
		return Page{}, err
	}
	p := Page{Title: fmt.Sprintf("%s [%s at %s]", name, repo, ref)}
	ext := strings.TrimPrefix(strings.ToLower(path.Ext(name)), ".")
	if ext == "md" || ext == "markdown" {
		p.Markdown = string(body)
		return p, nil
	}
	text, note := lines(string(body), fragment)
	p.Markdown, p.Note = fenced(ext, text), note
	return p, nil
}

var lineRange = regexp.MustCompile(`^L(\d+)(?:C\d+)?(?:-L(\d+)(?:C\d+)?)?$`)

// lines takes the lines that a fragment such as L10-L20 names.
func lines(text, fragment string) (string, string) {
	m := lineRange.FindStringSubmatch(fragment)
	if m == nil {
		return text, ""
	}
	all := strings.SplitAfter(text, "\n")
	from, _ := strconv.Atoi(m[1]) // digits
	to := from
	if m[2] != "" {
		to, _ = strconv.Atoi(m[2])
	}
	if from < 1 || to < from || from > len(all) {
		return text, ""
	}
	to = min(to, len(all))
	return strings.Join(all[from-1:to], ""), fmt.Sprintf("lines %d to %d of %d are here; the address without its #-part gives all", from, to, len(all))
}

type release struct {
	Name        string
	TagName     string `json:"tag_name"`
	Body        string
	PublishedAt string `json:"published_at"`
	HTMLURL     string `json:"html_url"`
	Draft       bool
	Prerelease  bool
	Assets      []struct {
		Name string
		Size int64
		URL  string `json:"browser_download_url"`
	}
}

func (r release) write(out *strings.Builder) {
	fmt.Fprintf(out, "**Tag:** %s  \n**Published:** %s  \n", r.TagName, r.PublishedAt)
	if r.Prerelease {
		out.WriteString("**Pre-release**  \n")
	}
	fmt.Fprintf(out, "**URL:** %s\n\n%s\n", r.HTMLURL, oneOf(r.Body, "(no notes)"))
	for i, a := range r.Assets {
		if i == 0 {
			out.WriteString("\nFiles:\n\n")
		}
		fmt.Fprintf(out, "- [%s](%s), %d bytes\n", a.Name, a.URL, a.Size)
	}
}

func (g GitHub) release(ctx context.Context, get Get, repo, which string) (Page, error) {
	var r release
	if err := fetchJSON(ctx, get, g.address(repo, "releases/"+which), g.header(githubJSON), &r); err != nil {
		return Page{}, err
	}
	var out strings.Builder
	r.write(&out)
	return Page{Title: fmt.Sprintf("Release %s [%s]", oneOf(r.Name, r.TagName), repo), Markdown: out.String()}, nil
}

// releases are the last ones.
func (g GitHub) releases(ctx context.Context, get Get, repo string) (Page, error) {
	const some = 10
	var all []release
	if err := fetchJSON(ctx, get, g.address(repo, "releases?per_page="+strconv.Itoa(some)), g.header(githubJSON), &all); err != nil {
		return Page{}, err
	}
	p := Page{Title: fmt.Sprintf("Releases [%s]", repo)}
	var out strings.Builder
	for _, r := range all {
		fmt.Fprintf(&out, "## %s\n\n", oneOf(r.Name, r.TagName))
		r.write(&out)
		out.WriteByte('\n')
	}
	if len(all) == some {
		p.Note = fmt.Sprintf("the last %d releases are here", some)
	}
	p.Markdown = oneOf(out.String(), "There are no releases.")
	return p, nil
}

// fenced puts a text into a code block that it cannot end itself.
func fenced(language, text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + language + "\n" + strings.TrimSuffix(text, "\n") + "\n" + fence + "\n"
}
