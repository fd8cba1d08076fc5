package downstream

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/hide"
)

const (
	// maxMessage is the most bytes one message of a server may have.
	maxMessage = 64 << 20
	// maxNotice is the most bytes of a notification: the library makes values of all
	// that is in it.
	maxNotice = 1 << 20
	// noiseLogged is how many stray lines of a server are logged one by one.
	noiseLogged = 5
)

// Noise is what a program wrote on stdout beside its messages.
type Noise struct {
	Lines int64
	First string // the beginning of the first such line
}

// messages passes the messages of a program's stdout on and keeps back what is
// none, such as banners. It ends with src.
type messages struct {
	log    *slog.Logger
	hide   *hide.Values
	flow   *flow
	answer func(json.RawMessage) // takes the server's requests
	mu     sync.Mutex
	n      Noise
	report func(Noise)            // told of the first stray lines; may be nil
	open   map[string]func(error) // requests without an answer, and what fails each
}

func (m *messages) noise() Noise {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.n
}

// watch lets f know of stray lines, those of before too.
func (m *messages) watch(f func(Noise)) {
	m.mu.Lock()
	m.report = f
	now := m.n
	m.mu.Unlock()
	f(now)
}

func (m *messages) copy(dst io.Writer, src io.Reader) error {
	br := bufio.NewReaderSize(src, 64<<10)
	for {
		line, long, err := readLine(br)
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")) // some write a byte order mark
		if err := m.flow.message(1); err != nil {
			return err
		}
		switch {
		case long && (bytes.HasPrefix(line, []byte("{")) || bytes.HasPrefix(line, []byte("[{"))): // of a long one only the beginning is known, which may be blank
			// Whose answer it is can't be told: all that wait must hear of it.
			m.flow.stop(fmt.Errorf("the server %w", errTooLong))
			return errTooLong
		case long:
			m.stray("a line of more than 64 MiB")
		case len(line) == 0:
		case isMessage(line):
			if err := m.pass(dst, line); err != nil {
				return err
			}
		case line[0] == '[':
			// Up to 2025-03-26 messages may come in batches.
			if err := m.batch(dst, line); err != nil {
				return err
			}
		default:
			m.unreadable(line, whyNot(line))
		}
		if err != nil {
			return err
		}
	}
}

// batch passes the messages of a batch on.
func (m *messages) batch(dst io.Writer, line []byte) (err error) {
	if !json.Valid(line) {
		m.unreadable(line, whyNot(line))
		return nil
	}
	if n := topEntries(line); n > maxEntries {
		m.unreadable(line, fmt.Sprintf("it is a batch of %d messages; at most %d are taken", n, maxEntries))
		return nil
	}
	gjson.ParseBytes(line).ForEach(func(_, one gjson.Result) bool {
		if err = m.flow.message(1); err == nil && one.IsObject() {
			err = m.pass(dst, []byte(one.Raw))
		}
		return err == nil
	})
	return err
}

// pass passes a message on, but for requests: the library would start a goroutine
// for each, however many there are.
func (m *messages) pass(dst io.Writer, line []byte) error {
	if isRequest(line) {
		if err := m.flow.room(); err != nil {
			return err
		}
		m.flow.ask()
		go func() {
			defer m.flow.answered()
			m.answer(line)
		}()
		return nil
	}
	if len(line) > maxNotice && gjson.GetBytes(line, "method").Type == gjson.String {
		m.stray(fmt.Sprintf("a notification of %d bytes, at most %d are taken: %s", len(line), maxNotice, clip(string(line), 100)))
		return nil
	}
	_, err := dst.Write(append(m.tidy(line), '\n'))
	return err
}

// isRequest reports whether a message wants an answer.
func isRequest(line []byte) bool {
	if !bytes.Contains(line, []byte(`"method"`)) {
		return false
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method *string         `json:"method"`
	}
	return json.Unmarshal(line, &m) == nil && m.Method != nil && len(m.ID) > 0 && string(m.ID) != "null"
}

func isMessage(line []byte) bool { return line[0] == '{' && json.Valid(line) }

// readLine reads one line without its end. Of a line over the limit only the
// beginning is kept.
func readLine(br *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := br.ReadSlice('\n')
		if !long {
			line = append(line, part...)
		}
		if len(line) > maxMessage {
			line, long = bytes.Clone(line[:min(len(line), 100)]), true
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		return bytes.TrimSpace(line), long, err
	}
}

func (m *messages) stray(line string) {
	m.mu.Lock()
	m.n.Lines++
	n := m.n.Lines
	if n == 1 {
		m.n.First = clip(m.hide.Text(line), 200)
	}
	now, report := m.n, m.report
	m.mu.Unlock()
	if report != nil && (n <= noiseLogged || n%1000 == 0) {
		report(now)
	}
	if n <= noiseLogged {
		m.log.Info("a line on stdout that is no message", "line", clip(m.hide.Text(line), 200))
	}
}

// tail keeps the last lines of a program's stderr and logs them.
type tail struct {
	log     *slog.Logger
	limit   *logLimit
	hide    *hide.Values
	mu      sync.Mutex
	lines   []string
	partial []byte
}

const tailLines = 20

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			t.partial = append(t.partial, p...)
			if len(t.partial) > 4096 {
				t.line()
			}
			break
		}
		t.partial = append(t.partial, p[:i]...)
		t.line()
		p = p[i+1:]
	}
	return n, nil
}

func (t *tail) line() {
	line := clip(t.hide.Text(strings.TrimSpace(strings.ToValidUTF8(string(t.partial), "\uFFFD"))), 400)
	t.partial = t.partial[:0]
	if line == "" {
		return
	}
	if ok, missed := t.limit.allow(); ok {
		t.log.Debug("stderr", "line", line, "missed", missed)
	}
	t.lines = append(t.lines, line)
	if len(t.lines) > tailLines {
		t.lines = t.lines[1:]
	}
}

func (t *tail) last(n int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.partial) > 0 {
		t.line()
	}
	lines := t.lines
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, " | ")
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
