package web

import (
	"bytes"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/gogs/chardet"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
)

// kind is what a body is to this plugin.
type kind int

const (
	binary kind = iota
	plain       // kept as it is
	markup      // HTML, to be converted
	paper       // PDF
)

// classify tells the kind of a body by its declared type, and by its first bytes
// where the server said nothing or something the bytes contradict.
func classify(contentType string, body []byte) (kind, string) {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		media = strings.ToLower(strings.TrimSpace(strings.SplitN(contentType, ";", 2)[0]))
	}
	sniffed, _, _ := mime.ParseMediaType(http.DetectContentType(body)) // constant strings: always parse
	if media == "" || media == "application/octet-stream" {
		media = sniffed
	}
	if bytes.HasPrefix(body, []byte("%PDF-")) { // whatever it is called
		return paper, "application/pdf"
	}
	k := binary
	switch {
	case media == "text/html", media == "application/xhtml+xml":
		k = markup
	case strings.HasPrefix(media, "text/"), strings.HasSuffix(media, "+json"), strings.HasSuffix(media, "+xml"),
		strings.HasSuffix(media, "+yaml"), textual[media]:
		k = plain
	}
	if k != binary && isBinary(sniffed) && !utf16(contentType, body) {
		return binary, sniffed
	}
	return k, media
}

var textual = map[string]bool{
	"application/json": true, "application/x-ndjson": true, "application/jsonl": true, "application/xml": true,
	"application/javascript": true, "application/x-javascript": true, "application/ecmascript": true,
	"application/yaml": true, "application/x-yaml": true, "application/toml": true, "application/sql": true,
	"application/x-sh": true, "application/x-www-form-urlencoded": true, "application/rtf": false,
}

func isBinary(sniffed string) bool { return !strings.HasPrefix(sniffed, "text/") }

// utf16 tells UTF-16 text, which is full of zero bytes, from a binary file.
func utf16(contentType string, body []byte) bool {
	return strings.Contains(strings.ToLower(contentType), "utf-16") ||
		bytes.HasPrefix(body, []byte{0xFE, 0xFF}) || bytes.HasPrefix(body, []byte{0xFF, 0xFE})
}

// toUTF8 decodes a text by what is declared, in the header or in the page, and by
// the look of its bytes when nothing is.
func toUTF8(contentType string, body []byte, isHTML bool) string {
	if !isHTML && !strings.Contains(strings.ToLower(contentType), "charset=") && utf8.Valid(body) {
		return clean(body)
	}
	enc, name, certain := charset.DetermineEncoding(body, contentType)
	// What a page declares comes back as uncertain, too; only the standard's last
	// resort, windows-1252, is worth a second look at the bytes.
	if !certain && name == "windows-1252" {
		if utf8.Valid(body) {
			return clean(body)
		}
		if guess, err := chardet.NewHtmlDetector().DetectBest(body); err == nil && guess.Confidence >= 30 {
			if e, n := charset.Lookup(guess.Charset); e != nil {
				enc, name = e, n
			}
		}
	}
	if name == "utf-8" && !utf8.Valid(body) {
		if other := undeclared(body); other != nil {
			enc, name = other, ""
		}
	}
	if name == "utf-8" || enc == encoding.Nop {
		return clean(body)
	}
	out, err := enc.NewDecoder().Bytes(body)
	if err != nil {
		return clean(body)
	}
	return clean(out)
}

// wrongShare is the part of a text's bytes beyond ASCII that may not be UTF-8 in
// one that says it is: more is another encoding, less is damage.
const wrongShare = 4 // a quarter

// undeclared is the encoding of a text that says it is UTF-8 and is not, if that
// can be told by its bytes.
func undeclared(body []byte) encoding.Encoding {
	wrong, high := 0, 0
	for i := 0; i < len(body); {
		r, size := utf8.DecodeRune(body[i:])
		if body[i] >= utf8.RuneSelf {
			high += size
			if r == utf8.RuneError && size == 1 {
				wrong++
			}
		}
		i += size
	}
	if wrong*wrongShare < high {
		return nil
	}
	guess, err := chardet.NewHtmlDetector().DetectBest(body)
	if err != nil || guess.Confidence < 30 || strings.EqualFold(guess.Charset, "utf-8") {
		return nil
	}
	enc, _ := charset.Lookup(guess.Charset)
	return enc
}

func clean(b []byte) string {
	b = bytes.TrimPrefix(b, []byte("\xEF\xBB\xBF"))
	return strings.ReplaceAll(strings.ToValidUTF8(string(b), "\uFFFD"), "\x00", "")
}
