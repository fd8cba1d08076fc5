package downstream

import (
	"bytes"
	"fmt"
)

const (
	// maxEntries is how many entries a list of an answer, and members an object that is
	// read member by member, may have. Each costs many times its bytes once it is read.
	maxEntries = 10_000
	// watchedDepth is how deep objects are read member by member.
	watchedDepth = 5
)

func badAnswer(format string, args ...any) error {
	return &AnswerError{fmt.Sprintf(format, args...)}
}

// checkShape refuses a result that costs too much to read, before anything is made of
// it. Structured content is passed on as it is and may have as many rows as it likes.
func checkShape(raw []byte) error {
	var entries [watchedDepth + 1]int
	var object [watchedDepth + 1]bool
	var last, key []byte
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			end := stringEnd(raw, i)
			if depth == 1 {
				last = raw[i+1 : end]
			}
			i = end
		case ':':
			if depth == 1 {
				key = last
			}
		case ',':
			if depth <= watchedDepth {
				entries[depth]++
			}
		case '{', '[':
			if depth++; depth > maxDepth {
				return badAnswer("it is nested deeper than %d levels", maxDepth)
			}
			if depth <= watchedDepth {
				entries[depth], object[depth] = 1, raw[i] == '{'
			}
		case '}', ']':
			if depth > 0 && depth <= watchedDepth && entries[depth] > maxEntries {
				switch free := string(key) == "structuredContent"; {
				case depth == 1 && object[1]:
					return badAnswer("it has %d members; at most %d are taken", entries[1], maxEntries)
				case depth == 2 && !free, depth > 2 && object[depth] && !free:
					return badAnswer("its %q has %d entries in one place; at most %d are taken", clip(string(key), 60), entries[depth], maxEntries)
				}
			}
			depth--
		}
	}
	return nil
}

// stringEnd is where the string that begins at i ends.
func stringEnd(raw []byte, i int) int {
	for end := i + 1; ; end++ {
		n := bytes.IndexByte(raw[end:], '"')
		if n < 0 {
			return len(raw)
		}
		end += n
		escapes := 0
		for raw[end-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return end
		}
	}
}

// topEntries counts the entries of a JSON list.
func topEntries(raw []byte) int {
	depth, n := 0, 1
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i = stringEnd(raw, i)
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',':
			if depth == 1 {
				n++
			}
		}
	}
	return n
}
