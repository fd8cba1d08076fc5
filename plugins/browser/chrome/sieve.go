package chrome

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
)

const (
	maxMessage = 32 << 20 // bytes of one message of the browser's
	messageEnd = 512      // bytes at either end of a longer one that are looked at
)

// sieve reads the browser's messages, each of which ends with a zero byte, and
// lets none through that is longer than max. A page decides how long its events
// and answers are, and must not decide how much memory this process takes.
type sieve struct {
	from io.ReadCloser
	r    *bufio.Reader
	max  int
	out  bytes.Buffer // what is let through and not yet read
}

func newSieve(from io.ReadCloser, max int) *sieve {
	return &sieve{from: from, r: bufio.NewReaderSize(from, 64<<10), max: max}
}

func (s *sieve) Close() error { return s.from.Close() }

func (s *sieve) Read(p []byte) (int, error) {
	for s.out.Len() == 0 {
		if s.out.Cap() > 1<<20 {
			s.out = bytes.Buffer{} // one long message is not kept room for
		}
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	return s.out.Read(p)
}

// next takes one message.
func (s *sieve) next() error {
	var head, tail []byte
	for size := 0; ; {
		part, err := s.r.ReadSlice(0)
		size += len(part)
		long := size > s.max
		if long && head == nil {
			head = bytes.Clone(s.out.Bytes()[:min(s.out.Len(), messageEnd)])
			tail = bytes.Clone(s.out.Bytes()[max(0, s.out.Len()-messageEnd):])
			s.out = bytes.Buffer{}
		}
		if long {
			if tail = append(tail, part...); len(tail) > messageEnd {
				tail = bytes.Clone(tail[len(tail)-messageEnd:])
			}
		} else {
			s.out.Write(part)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return err
		case long:
			s.out.Write(instead(head, tail, s.max))
		}
		return nil
	}
}

var (
	answerID  = regexp.MustCompile(`^\{"id":(\d{1,18}),`)
	sessionID = regexp.MustCompile(`"sessionId":"([0-9A-Za-z]{1,100})"\}\x00$`)
)

// instead is what comes for a message that is too long: for an answer the word
// that it is, so that nobody waits for it; for an event nothing.
func instead(head, tail []byte, limit int) []byte {
	id := answerID.FindSubmatch(head)
	if id == nil {
		return nil
	}
	of := ""
	if m := sessionID.FindSubmatch(tail); m != nil {
		of = fmt.Sprintf(`,"sessionId":%q`, m[1])
	}
	return fmt.Appendf(nil, `{"id":%s,"error":{"code":-32000,"message":"the answer is larger than %d MiB"}%s}`+"\x00", id[1], limit>>20, of)
}
