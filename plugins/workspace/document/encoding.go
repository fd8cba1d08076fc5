package document

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// ErrBinary says that bytes are no text this package can give back unharmed.
var ErrBinary = errors.New("it is not text in UTF-8, nor in UTF-16 with a byte order mark")

// Document is a text file's content.
type Document struct {
	Text string // without a byte order mark; line ends as they are
	form form
}

// form is how a text is written as bytes.
type form int

const (
	plain   form = iota // UTF-8
	marked              // UTF-8 after a byte order mark
	utf16le             // after one, too
	utf16be
)

var (
	mark8  = []byte("\xef\xbb\xbf")
	markLE = []byte("\xff\xfe")
	markBE = []byte("\xfe\xff")
)

func (f form) codec() (mark []byte, codec encoding.Encoding) {
	switch f {
	case marked:
		return mark8, nil
	case utf16le:
		return markLE, unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	case utf16be:
		return markBE, unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	}
	return nil, nil
}

// Decode reads a file's bytes. ErrBinary when they are no text, or are text that
// would not come back as the same bytes.
func Decode(raw []byte) (Document, error) {
	var d Document
	switch {
	case bytes.HasPrefix(raw, mark8):
		d.form = marked
	case bytes.HasPrefix(raw, markLE):
		d.form = utf16le
	case bytes.HasPrefix(raw, markBE):
		d.form = utf16be
	}
	mark, codec := d.form.codec()
	body := raw[len(mark):]
	if codec != nil {
		text, _, err := transform.Bytes(codec.NewDecoder(), body)
		if err != nil {
			return d, ErrBinary
		}
		body = text
	}
	if !utf8.Valid(body) || bytes.IndexByte(body, 0) >= 0 {
		return d, ErrBinary
	}
	d.Text = string(body)
	if codec != nil {
		// A lone surrogate became U+FFFD and would stay it.
		if back, err := d.Encode(d.Text); err != nil || !bytes.Equal(back, raw) {
			return d, ErrBinary
		}
	}
	return d, nil
}

// Encode gives the bytes of another text in the form of this document.
func (d Document) Encode(text string) ([]byte, error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("the new text is not valid UTF-8")
	}
	mark, codec := d.form.codec()
	body := []byte(text)
	if codec != nil {
		var err error
		if body, _, err = transform.Bytes(codec.NewEncoder(), body); err != nil {
			return nil, err
		}
	}
	return append(bytes.Clone(mark), body...), nil
}

// LineEnd is the one most lines have: "\r\n" or "\n".
func LineEnd(text string) string {
	if crlf := strings.Count(text, "\r\n"); crlf > strings.Count(text, "\n")-crlf {
		return "\r\n"
	}
	return "\n"
}

// WithLineEnd gives text with all its line ends as end.
func WithLineEnd(text, end string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if end != "\n" {
		text = strings.ReplaceAll(text, "\n", end)
	}
	return text
}
