package splice

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// Path leads from an object to values in it: a.b, a[*], a[*].b. Keys are matched
// in any case, since servers read them so.
type Path struct{ steps []step }

type step struct {
	key  string
	each bool // the elements of the array that is here
}

var segment = regexp.MustCompile(`^([^.\[\]*]+)((?:\[\*\])*)$`)

// ParsePath reads a path such as attachments[*] or message.files[*].
func ParsePath(s string) (Path, error) {
	var p Path
	for part := range strings.SplitSeq(s, ".") {
		m := segment.FindStringSubmatch(part)
		if m == nil {
			return p, fmt.Errorf(`%q is no path: keys with dots between them are wanted, and [*] behind the key of a list, as in "attachments[*]" or "message.files[*]"`, s)
		}
		p.steps = append(p.steps, step{key: m[1]})
		for range strings.Count(m[2], "[*]") {
			p.steps = append(p.steps, step{each: true})
		}
	}
	return p, nil
}

// Key is the path of one member.
func Key(name string) Path { return Path{[]step{{key: name}}} }

// Each calls f for every value the path leads to, every one of several members
// with a name, and gives the object with what f gave in place of the values; nil
// leaves a value as it is. Values the path does not fit are passed over.
func (p Path) Each(raw json.RawMessage, f func(json.RawMessage) (json.RawMessage, error)) (json.RawMessage, error) {
	return each(raw, p.steps, f, func(Odd) error { return nil })
}

// Odd is a value on the way that is not of the kind the path goes on through.
type Odd struct {
	Value json.RawMessage
	List  bool // an array was wanted, else an object
}

// Look calls f for every value the path leads to, and odd where a value stands in its
// way: there is something, and the path does not fit it. What is absent is neither.
func (p Path) Look(raw json.RawMessage, f func(json.RawMessage) error, odd func(Odd) error) error {
	_, err := each(raw, p.steps, func(v json.RawMessage) (json.RawMessage, error) { return nil, f(v) }, odd)
	return err
}

func each(raw json.RawMessage, steps []step, f func(json.RawMessage) (json.RawMessage, error), odd func(Odd) error) (json.RawMessage, error) {
	if len(steps) == 0 {
		now, err := f(raw)
		if now == nil || err != nil {
			return raw, err
		}
		return now, nil
	}
	members, ok := Members(raw)
	if !ok || members.array != steps[0].each {
		return raw, odd(Odd{raw, steps[0].each})
	}
	return members.replace(func(m Member) (json.RawMessage, error) {
		if !steps[0].each && !strings.EqualFold(m.Key, steps[0].key) {
			return m.Value, nil
		}
		return each(m.Value, steps[1:], f, odd)
	})
}

// Member is one member of an object, or one element of an array.
type Member struct {
	Key   string // empty in arrays
	Value json.RawMessage
	start int
}

// List is the members of an object or array as they stand, repeated keys too.
type List struct {
	raw   json.RawMessage
	All   []Member
	array bool
}

// Members takes an object or array apart; ok is false for everything else.
func Members(raw json.RawMessage) (l List, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	open, err := dec.Token()
	if err != nil || (open != json.Delim('{') && open != json.Delim('[')) {
		return l, false
	}
	l.raw, l.array = raw, open == json.Delim('[')
	for dec.More() {
		var m Member
		if !l.array {
			key, err := dec.Token()
			name, isName := key.(string)
			if err != nil || !isName {
				return l, false
			}
			m.Key = name
		}
		if err := dec.Decode(&m.Value); err != nil {
			return l, false
		}
		m.start = int(dec.InputOffset()) - len(m.Value)
		l.All = append(l.All, m)
	}
	return l, true
}

// Object takes an object apart; ok is false for everything else.
func Object(raw json.RawMessage) (List, bool) {
	l, ok := Members(raw)
	return l, ok && !l.array
}

func (l List) replace(f func(Member) (json.RawMessage, error)) (json.RawMessage, error) {
	var out bytes.Buffer
	at := 0
	for _, m := range l.All {
		now, err := f(m)
		if err != nil {
			return l.raw, err
		}
		if bytes.Equal(now, m.Value) {
			continue
		}
		out.Write(l.raw[at:m.start])
		out.Write(now)
		at = m.start + len(m.Value)
	}
	if at == 0 {
		return l.raw, nil
	}
	out.Write(l.raw[at:])
	return out.Bytes(), nil
}

// Get gives a member by name, the exact one before one in another case; of
// repeated ones the last, which is what readers take.
func (l List) Get(name string) (json.RawMessage, bool) {
	var found json.RawMessage
	for _, same := range []func(a, b string) bool{func(a, b string) bool { return a == b }, strings.EqualFold} {
		for _, m := range l.All {
			if same(m.Key, name) {
				found = m.Value
			}
		}
		if found != nil {
			return found, true
		}
	}
	return nil, false
}

// Text is a member's string; empty when it is none.
func (l List) Text(names ...string) string {
	for _, name := range names {
		var s string
		if raw, ok := l.Get(name); ok && json.Unmarshal(raw, &s) == nil && s != "" {
			return s
		}
	}
	return ""
}

// With gives the object without the members named in drop, in any case, and with
// others added at its end, keys and values in turn.
func (l List) With(drop []string, add ...string) json.RawMessage {
	var out bytes.Buffer
	out.WriteByte('{')
	put := func(key string, value json.RawMessage) {
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		name, err := json.Marshal(key)
		if err != nil { // a string
			panic(err)
		}
		out.Write(name)
		out.WriteByte(':')
		out.Write(value)
	}
members:
	for _, m := range l.All {
		for _, d := range drop {
			if strings.EqualFold(d, m.Key) {
				continue members
			}
		}
		put(m.Key, m.Value)
	}
	for i := 0; i+1 < len(add); i += 2 {
		put(add[i], json.RawMessage(add[i+1]))
	}
	out.WriteByte('}')
	return out.Bytes()
}
