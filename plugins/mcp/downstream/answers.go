package downstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// The library drops a line that it can't read, and whoever waits for it waits until
// the time is up. What such a line answers is told here instead.

const (
	ownPrefix    = "bulkhead-" // of the ids of requests here
	codeInternal = -32603
	// lookedAt is how many bytes at both ends of a line are searched for an id.
	lookedAt = 4096
)

var (
	ownID = regexp.MustCompile(`"id"\s*:\s*"(` + ownPrefix + `\d+)"`)
	anyID = regexp.MustCompile(`"id"\s*:`)
)

// expect notes that a request is open. fail ends it; done forgets it.
func (m *messages) expect(id string, fail func(error)) (done func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open == nil {
		m.open = map[string]func(error){}
	}
	m.open[id] = fail
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.open, id)
	}
}

func (m *messages) expects(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open[id] != nil
}

// unreadable takes a line that is no message. The requests that it must be meant for
// fail at once.
func (m *messages) unreadable(line []byte, why string) {
	m.stray(string(line[:min(len(line), lookedAt)]))
	text := why + "; it begins with " + clip(m.hide.Text(string(bytes.ToValidUTF8(line[:min(len(line), 100)], []byte("\uFFFD")))), 100)
	for _, fail := range m.meant(line) {
		fail(&AnswerError{text})
	}
}

// meant are the open requests that a broken line names, or the only one that it can
// be an answer to.
func (m *messages) meant(line []byte) (fails []func(error)) {
	ends := line
	if len(line) > 2*lookedAt {
		ends = append(bytes.Clone(line[:lookedAt]), line[len(line)-lookedAt:]...)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ownID.FindAllSubmatch(ends, -1) {
		if fail := m.open[string(id[1])]; fail != nil {
			fails = append(fails, fail)
		}
	}
	if len(fails) > 0 || len(m.open) != 1 || line[0] != '{' || anyID.Match(ends) || bytes.Contains(ends, []byte(`"method"`)) {
		return fails
	}
	if bytes.Contains(ends, []byte(`"result"`)) || bytes.Contains(ends, []byte(`"error"`)) {
		for _, fail := range m.open {
			fails = append(fails, fail)
		}
	}
	return fails
}

// whyNot says why a line is not JSON.
func whyNot(line []byte) string {
	err := json.Unmarshal(line, new(json.RawMessage))
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return "it is no message"
	case errors.As(err, &syntax) && syntax.Offset > 0:
		return "it is not JSON: " + err.Error() + " (byte " + strconv.FormatInt(syntax.Offset, 10) + ")"
	}
	return "it is not JSON: " + err.Error()
}

// tidy gives a message as the library reads it.
func (m *messages) tidy(line []byte) []byte {
	out, odd := orderly(line, m.expects)
	if odd {
		m.stray("an answer that is none by JSON-RPC: " + string(line[:min(len(line), lookedAt)]))
	}
	return out
}

// orderly gives a message as the library reads it: an answer to an open request whose
// error, method or revision is of a kind that it would drop, or whose error would cost
// it many times its bytes, is written anew. odd reports that it was.
func orderly(line []byte, expects func(id string) bool) (out []byte, odd bool) {
	if !bytes.Contains(line, []byte(`"error"`)) && bytes.Contains(line[:min(len(line), 200)], []byte(`"jsonrpc":"2.0"`)) && !bytes.Contains(line, []byte(`"method"`)) {
		return line, false // as nearly all are
	}
	got := gjson.GetManyBytes(line, "id", "jsonrpc", "method", "error", "result")
	id, version, method, fault, result := got[0], got[1], got[2], got[3], got[4]
	if method.Type == gjson.String || id.Type != gjson.String || !expects(id.Str) {
		return line, false
	}
	faulty := fault.Exists() && fault.Type != gjson.Null
	if (!faulty || readable(fault)) && (version.Type == gjson.String || !version.Exists()) && (method.Type == gjson.Null || !method.Exists()) {
		return line, false
	}
	out = append([]byte(`{"jsonrpc":"2.0","id":`), id.Raw...)
	switch {
	case faulty && readable(fault):
		out = append(append(out, `,"error":`...), fault.Raw...)
	case faulty:
		out = append(append(append(append(out, `,"error":{"code":`...), strconv.Itoa(codeInternal)...), `,"message":`...), quoted(faultText(fault))...)
		out = append(out, '}')
	case result.Exists():
		out = append(append(out, `,"result":`...), result.Raw...)
	}
	return append(out, '}'), true
}

// ofOurs reports whether an id is one that requests here have.
func ofOurs(id string) bool { return strings.HasPrefix(id, ownPrefix) }

// fit gives a message of a stream as the library can read it at a cost that its bytes
// account for; nil = it is not to be read at all.
func fit(data []byte) []byte {
	if len(data) > maxNotice && gjson.GetBytes(data, "method").Type == gjson.String {
		return nil
	}
	if !tooDeep(data) {
		out, _ := orderly(data, ofOurs)
		return out
	}
	ends := append(bytes.Clone(data[:min(len(data), lookedAt)]), data[max(0, len(data)-lookedAt):]...)
	id := ownID.FindSubmatch(ends)
	if id == nil {
		return nil
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%q,"error":{"code":%d,"message":"its answer is nested deeper than %d levels"}}`, id[1], codeInternal, maxDepth)
}

// readable reports whether an error is as JSON-RPC has it, and not so large that the
// values the library makes of it weigh.
func readable(fault gjson.Result) bool {
	var e struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	return len(fault.Raw) <= maxNotice && fault.IsObject() && json.Unmarshal([]byte(fault.Raw), &e) == nil
}

// faultText is what the server says in an error that is none.
func faultText(fault gjson.Result) string {
	text, code := fault.Get("message"), fault.Get("code")
	switch {
	case fault.Type == gjson.String:
		return clip(fault.Str, 2000)
	case fault.IsObject() && text.Type == gjson.String && code.Exists():
		return clip(text.Str, 2000) + " (code " + clip(strings.Trim(code.Raw, `"`), 60) + ")"
	case fault.IsObject() && text.Type == gjson.String:
		return clip(text.Str, 2000)
	}
	return "an error that can't be read: " + clip(fault.Raw, 2000)
}

func quoted(s string) []byte {
	raw, err := json.Marshal(s)
	if err != nil { // a string: can't fail
		panic(err)
	}
	return raw
}
