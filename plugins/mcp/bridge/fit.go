package bridge

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/bulkhead-dev/bulkhead/sdk"
)

const (
	// maxInline is the most bytes of a result that travel in the message; what is
	// beyond goes by file.
	maxInline = 3 << 20
	// largeBlock is from where on a block is worth a file of its own.
	largeBlock = 64 << 10
	// blockCost is what a block costs beside its bytes, or less.
	blockCost = 64
)

// weight is how many bytes a block takes in a message, or more.
func weight(c *sdk.Content) int {
	n := blockCost + len(c.Text) + len(c.Raw) + len(c.Annotations)
	for _, f := range []*sdk.FileRef{c.File, c.TextFile} {
		if f != nil {
			n += len(f.Path) + len(f.Name) + len(f.MIME) + len(f.Note)
		}
	}
	if l := c.Link; l != nil {
		n += len(l.URI) + len(l.Name) + len(l.Title) + len(l.Description) + len(l.MIME) + len(l.Raw)
	}
	if r := c.Resource; r != nil {
		n += len(r.URI) + len(r.MIME) + len(r.Text)
	}
	return n
}

func resultWeight(r *sdk.Result) int {
	n := len(r.Structured) + len(r.Meta)
	for i := range r.Content {
		n += weight(&r.Content[i])
	}
	return n
}

// fit moves what is too large for a message into files: the largest first, each into
// its own; then all texts into one; then, whatever it is, the whole result as the
// server sent it.
func (b *Bridge) fit(tool string, r sdk.Result, raw json.RawMessage) (sdk.Result, error) {
	size := resultWeight(&r)
	if size <= maxInline {
		return r, nil
	}
	whole, left := size, size
	save := func(mime string, data []byte) (*sdk.FileRef, error) {
		ref, err := b.store("results", tool, mime, data)
		if err != nil {
			return nil, sdk.Errorf(sdk.TooLarge, "the result of %q has %d bytes, and a part of it can't be put into a file: %v", tool, whole, err)
		}
		return &ref, nil
	}
	if len(r.Structured) > largeBlock {
		ref, err := save("application/json", r.Structured)
		if err != nil {
			return sdk.Result{}, err
		}
		left -= len(r.Structured)
		r.Structured = nil
		r.Content = append(r.Content, sdk.Text("The structured result is too large for a message; it is in "+ref.Path+"."))
	}
	order := make([]int, len(r.Content))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(weight(&r.Content[y]), weight(&r.Content[x])) })
	for _, i := range order {
		c := r.Content[i]
		before := weight(&c)
		if left <= maxInline || before <= largeBlock {
			break
		}
		data, mime := []byte(c.Raw), "application/json"
		switch {
		case c.Text != "":
			data, mime = []byte(c.Text), "text/plain"
		case c.Resource != nil && c.Resource.Text != "":
			data, mime = []byte(c.Resource.Text), orElse(c.Resource.MIME, "text/plain")
		case len(data) == 0:
			continue // what weighs are its labels
		}
		ref, err := save(mime, data)
		if err != nil {
			return sdk.Result{}, err
		}
		if r.Content[i] = sdk.File(*ref); c.Text != "" {
			r.Content[i] = sdk.Content{TextFile: ref, Annotations: c.Annotations}
		}
		left += weight(&r.Content[i]) - before
	}
	if left > maxInline {
		if err := joinTexts(&r, save); err != nil {
			return sdk.Result{}, err
		}
	}
	if resultWeight(&r) <= maxInline {
		return r, nil
	}
	ref, err := save("application/json", raw)
	if err != nil {
		return sdk.Result{}, err
	}
	return sdk.Result{IsError: r.IsError, Content: []sdk.Content{sdk.Text("The result is too large for a message; as the server sent it, it is in " + ref.Path + "."), sdk.File(*ref)}}, nil
}

// joinTexts puts all texts into one file, which stands where the first stood, unless
// the server says something of one of them.
func joinTexts(r *sdk.Result, save func(mime string, data []byte) (*sdk.FileRef, error)) error {
	var texts []string
	var rest []sdk.Content
	at := -1
	for _, c := range r.Content {
		if c.Text == "" {
			rest = append(rest, c)
			continue
		}
		if len(c.Annotations) > 0 {
			return nil // which would be lost
		}
		if at < 0 {
			at = len(rest)
		}
		texts = append(texts, c.Text)
	}
	if len(texts) < 2 {
		return nil
	}
	ref, err := save("text/plain", []byte(strings.Join(texts, "\n\n")))
	if err != nil {
		return err
	}
	r.Content = slices.Insert(rest, at, sdk.Content{TextFile: ref})
	return nil
}
