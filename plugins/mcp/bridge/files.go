package bridge

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"os"
	"path"
	"strings"

	"github.com/bulkhead-dev/bulkhead/sdk"
)

// saveNamed stores a file among the attachments under the name it has, or with -2,
// -3 and so on behind it when that is taken. No link leads the write elsewhere.
func (b *Bridge) saveNamed(name, mimeType string, from io.Reader) (sdk.FileRef, error) {
	shared := b.plugin.Shared()
	name = leaf(name)
	free, release, err := b.freeName(name)
	if err != nil {
		return sdk.FileRef{}, err
	}
	ref, err := shared.Write("attachments/"+free, from)
	if err != nil {
		release()
		return sdk.FileRef{}, err
	}
	if base, _, err := mime.ParseMediaType(mimeType); err == nil {
		ref.MIME = base
	}
	if ref.MIME == "" {
		ref.MIME = "application/octet-stream"
	}
	return ref, nil
}

const maxSameName = 10_000

// freeName takes the first free name with an empty file, so that two results never
// share one. release gives it back.
func (b *Bridge) freeName(name string) (string, func(), error) {
	dir := b.plugin.Facts().SharedDir
	if dir == "" {
		return "", nil, sdk.Errorf(sdk.Unavailable, `this plugin has no shared folder; grant it with grants = ["shared"]`)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", nil, errors.New("the shared folder can't be opened")
	}
	defer root.Close()
	if err := root.MkdirAll("attachments", 0o755); err != nil {
		return "", nil, fmt.Errorf("the folder of attachments can't be made: %w", cause(err))
	}
	ext := path.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	if stem == "" {
		stem, ext = name, ""
	}
	for n := 1; n <= maxSameName; n++ {
		try := name
		if n > 1 {
			try = fmt.Sprintf("%s-%d%s", stem, n, ext)
		}
		f, err := root.OpenFile("attachments/"+try, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", nil, fmt.Errorf("%q can't be written: %w", try, cause(err))
		}
		f.Close()
		return try, func() {
			if root, err := os.OpenRoot(dir); err == nil {
				_ = root.Remove("attachments/" + try) // it is empty; an operator may sweep it
				root.Close()
			}
		}, nil
	}
	return "", nil, fmt.Errorf("%d files are called %q", maxSameName, name)
}

func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
