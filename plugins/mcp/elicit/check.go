package elicit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Check says why a value does not fit the field. Nothing is made to fit: a text
// where a number is asked for is wrong.
func (f *Field) Check(raw json.RawMessage) error {
	switch f.Kind {
	case String, Choice:
		var v *string
		if json.Unmarshal(raw, &v) != nil || v == nil {
			return fmt.Errorf("a text is wanted")
		}
		return f.checkText(*v)
	case Number, Integer:
		return f.checkNumber(raw)
	case Boolean:
		var v *bool
		if json.Unmarshal(raw, &v) != nil || v == nil {
			return fmt.Errorf("true or false is wanted")
		}
		return nil
	case Choices:
		var list []*string
		if json.Unmarshal(raw, &list) != nil || !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) {
			return fmt.Errorf("a list of choices is wanted")
		}
		for _, v := range list {
			if v == nil || !f.has(*v) {
				return fmt.Errorf("only these are choices: %s", f.choices())
			}
		}
		return f.size(len(list), "choices")
	}
	return fmt.Errorf("a field of kind %q can't be filled in", f.Kind)
}

func (f *Field) has(v string) bool {
	return slices.ContainsFunc(f.Options, func(o Option) bool { return o.Value == v })
}

func (f *Field) choices() string {
	var out []string
	for _, o := range f.Options {
		out = append(out, strconv.Quote(o.Value))
	}
	return clip(strings.Join(out, ", "), 1000)
}

func (f *Field) size(n int, what string) error {
	if f.minLength != nil && n < *f.minLength {
		return fmt.Errorf("at least %d %s are wanted", *f.minLength, what)
	}
	if f.maxSize != nil && n > *f.maxSize {
		return fmt.Errorf("at most %d %s are wanted", *f.maxSize, what)
	}
	return nil
}

func (f *Field) checkText(v string) error {
	if f.Kind == Choice {
		if !f.has(v) {
			return fmt.Errorf("one of these is wanted: %s", f.choices())
		}
		return nil
	}
	if err := f.size(utf8.RuneCountInString(v), "characters"); err != nil {
		return err
	}
	if f.pattern != nil && !f.pattern.MatchString(v) {
		return fmt.Errorf("a text like %s is wanted", f.pattern)
	}
	var err error
	switch f.format {
	case "email":
		var a *mail.Address
		if a, err = mail.ParseAddress(v); err == nil && a.Address != v {
			err = fmt.Errorf("more than an address")
		}
	case "uri":
		var u *url.URL
		if u, err = url.Parse(v); err == nil && u.Scheme == "" {
			err = fmt.Errorf("no scheme")
		}
	case "date":
		_, err = time.Parse(time.DateOnly, v)
	case "date-time":
		_, err = time.Parse(time.RFC3339, v)
	}
	if err != nil {
		return fmt.Errorf("a text of format %s is wanted", f.format)
	}
	return nil
}

func (f *Field) checkNumber(raw json.RawMessage) error {
	text := string(bytes.TrimSpace(raw))
	var n json.Number
	if strings.HasPrefix(text, `"`) || json.Unmarshal(raw, &n) != nil || n == "" {
		return fmt.Errorf("a number is wanted")
	}
	if f.Kind == Integer {
		if _, err := strconv.ParseInt(text, 10, 64); err != nil {
			return fmt.Errorf("a whole number is wanted")
		}
	}
	v, ok := number(text)
	if !ok {
		return fmt.Errorf("a number of this size is not taken")
	}
	if low, ok := number(string(f.minimum)); ok && v.Cmp(low) < 0 {
		return fmt.Errorf("at least %s is wanted", f.minimum)
	}
	if top, ok := number(string(f.maximum)); ok && v.Cmp(top) > 0 {
		return fmt.Errorf("at most %s is wanted", f.maximum)
	}
	return nil
}

// number is exact, and refuses exponents that would fill the memory.
func number(s string) (*big.Rat, bool) {
	if s == "" || len(s) > 64 {
		return nil, false
	}
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		if e, err := strconv.Atoi(s[i+1:]); err != nil || e > 400 || e < -400 {
			return nil, false
		}
	}
	return new(big.Rat).SetString(s)
}

// Fit reads an answer's content and says what does not fit: fields that are
// missing or wrong. What the form does not declare is dropped. Names are taken in
// any case.
func (f *Form) Fit(content json.RawMessage) (Values, error) {
	given, err := ReadValues(content)
	if err != nil {
		return nil, err
	}
	out := Values{}
	for name, v := range given {
		field := f.Field(name)
		if field == nil {
			continue
		}
		if err := field.Check(v); err != nil {
			return nil, fmt.Errorf("%s: %w", field.Name, err)
		}
		out[field.Name] = v
	}
	return out, f.Missing(out)
}

// Missing names the required fields that have no value.
func (f *Form) Missing(v Values) error {
	var names []string
	for _, field := range f.Fields {
		if _, ok := v[field.Name]; field.Required && !ok {
			names = append(names, field.Name)
		}
	}
	if len(names) > 0 {
		return fmt.Errorf("required and missing: %s", strings.Join(names, ", "))
	}
	return nil
}

// Values are the values of fields by name.
type Values map[string]json.RawMessage

// ReadValues reads a JSON object; nothing at all is an empty one.
func ReadValues(raw json.RawMessage) (Values, error) {
	out := Values{}
	if t := bytes.TrimSpace(raw); len(t) == 0 || string(t) == "null" {
		return out, nil
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, fmt.Errorf("the answer is no object")
	}
	return out, nil
}

// Content is the values as the answer's content, in the form's order.
func (f *Form) Content(v Values) json.RawMessage {
	var out bytes.Buffer
	out.WriteByte('{')
	for _, field := range f.Fields {
		value, ok := v[field.Name]
		if !ok {
			continue
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		key, err := json.Marshal(field.Name)
		if err != nil { // a string: can't fail
			panic(err)
		}
		out.Write(key)
		out.WriteByte(':')
		out.Write(value)
	}
	out.WriteByte('}')
	return out.Bytes()
}

// Defaults are the operator's values that fit fields of the form; stale names
// those that no longer do. A text is read as the literal it spells where a number
// or a truth value is wanted.
func (f *Form) Defaults(set Values) (fit Values, stale []string) {
	fit = Values{}
	for name, v := range set {
		field := f.Field(name)
		if field == nil {
			continue
		}
		var text string
		if (field.Kind == Number || field.Kind == Integer || field.Kind == Boolean) && json.Unmarshal(v, &text) == nil && json.Valid([]byte(strings.TrimSpace(text))) {
			v = json.RawMessage(strings.TrimSpace(text))
		}
		if field.Check(v) != nil {
			stale = append(stale, field.Name)
			continue
		}
		fit[field.Name] = v
	}
	slices.Sort(stale)
	return fit, stale
}
