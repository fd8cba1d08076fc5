package document

import (
	"fmt"
	"strings"
)

// NotFoundError says that a text does not hold what was to be replaced.
type NotFoundError struct {
	Near  string // the lines most like it; "" = none is
	First int    // line Near begins with
}

func (e *NotFoundError) Error() string {
	if e.Near == "" {
		return "the text to replace is not in the file, nor anything like it"
	}
	return fmt.Sprintf("the text to replace is not in the file; the most similar lines, from line %d on:\n%s", e.First, e.Near)
}

// AmbiguousError says that a text holds what was to be replaced more than once.
type AmbiguousError struct{ Lines []int }

func (e *AmbiguousError) Error() string {
	most := min(len(e.Lines), 10)
	at := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(e.Lines[:most])), ", "), "[]")
	if most < len(e.Lines) {
		at += ", …"
	}
	return fmt.Sprintf("the text to replace is in the file %d times (lines %s); add lines around it until it is unique, or set replace_all", len(e.Lines), at)
}

// Replace puts new in the place of old in text: in all of its places, or in the only
// one. When old is not there as written it is looked for with the line ends of the
// text, and new gets these too. n is how many places there were.
func Replace(text, old, new string, all bool) (result string, n int, err error) {
	if old == "" {
		return "", 0, fmt.Errorf("the text to replace is empty")
	}
	places := positions(text, old)
	if len(places) == 0 {
		for _, end := range []string{"\r\n", "\n"} {
			if other := WithLineEnd(old, end); other != old {
				if places = positions(text, other); len(places) > 0 {
					old, new = other, WithLineEnd(new, end)
					break
				}
			}
		}
	} else if LineEnd(text) == "\r\n" {
		new = WithLineEnd(new, "\r\n") // else a line of old would bring the other kind in
	}
	switch {
	case len(places) == 0:
		near, first := nearest(text, old)
		return "", 0, &NotFoundError{near, first}
	case len(places) > 1 && !all:
		e := &AmbiguousError{}
		for _, at := range places {
			e.Lines = append(e.Lines, 1+strings.Count(text[:at], "\n"))
		}
		return "", 0, e
	}
	var b strings.Builder
	from := 0
	for _, at := range places {
		b.WriteString(text[from:at])
		b.WriteString(new)
		from = at + len(old)
	}
	b.WriteString(text[from:])
	return b.String(), len(places), nil
}

// positions are where part is in text, none inside another.
func positions(text, part string) (at []int) {
	for from := 0; ; {
		i := strings.Index(text[from:], part)
		if i < 0 {
			return at
		}
		at = append(at, from+i)
		from += i + len(part)
	}
}
