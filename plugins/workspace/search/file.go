package search

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"
)

const (
	window  = 4 << 20 // bytes of a file that are looked at together
	first   = 64 << 10
	maxText = 400 // bytes of a line that are shown
)

// worker looks into one file after another.
type worker struct {
	*search
	buf   []byte
	low   []byte
	found Result
}

// file looks into a file.
func (w *worker) file(dir *folder, name, p string) {
	f, size, err := dir.open(name, w.q.Linked)
	if err == errLinked {
		w.found.Linked++
		return
	}
	if err != nil {
		w.found.Failed++
		return
	}
	defer f.Close()
	w.found.Searched++
	// Room for the file and a byte more, so that one read shows that it ends.
	if need := int(min(max(size+1, first), window)); cap(w.buf) < need {
		w.buf = make([]byte, need)
	}
	buf := w.buf[:cap(w.buf)]
	hits := 0
	line, from, have := 1, 0, 0 // buf[from:have] was not looked at; line is that of from
	for {
		n, err := readFull(f, buf[have:], size)
		if err != nil {
			w.found.Failed++
			return
		}
		if bytes.IndexByte(buf[have:have+n], 0) >= 0 {
			w.found.Binary++
			break
		}
		have += n
		last := have < len(buf)
		to := have
		if !last {
			if i := bytes.LastIndexByte(buf[from:have], '\n'); i >= 0 {
				to = from + i + 1
			}
		}
		hits += w.lines(p, buf[:to], from, line)
		if last || w.ctx.Err() != nil {
			break
		}
		line += bytes.Count(buf[from:to], []byte("\n"))
		// The lines before the rest go along, for the context of its matches.
		keep := to
		for range w.q.Before {
			if keep = bytes.LastIndexByte(buf[:max(keep-1, 0)], '\n') + 1; keep == 0 {
				break
			}
		}
		if to-keep > window/2 {
			keep = to
		}
		have = copy(buf, buf[keep:have])
		from = to - keep
		if have == len(buf) && cap(buf) >= window {
			from, have = 0, 0 // a line longer than the window was looked at in part
		} else if len(buf) < window {
			larger := make([]byte, window)
			copy(larger, buf[:have])
			buf, w.buf = larger, larger
		}
	}
	if hits > 0 {
		w.found.Files++
		w.found.Total += hits
	}
}

// lines notes the matching lines of text from an offset on, which is at a line.
func (w *worker) lines(p string, text []byte, from, line int) (hits int) {
	if w.m.fold {
		w.low = lower(text, w.low)
	}
	counted := from
	for from < len(text) {
		start, end, at := w.m.next(text, w.low, from)
		if start < 0 {
			break
		}
		hits++
		if len(w.found.Matches) < maxMatches {
			line += bytes.Count(text[counted:start], []byte("\n"))
			counted = start
			w.found.Matches = append(w.found.Matches, Match{Path: p, Line: line, Column: at + 1, Text: shown(text[start:end], at),
				Before: before(text, start, w.q.Before), After: after(text, end, w.q.After)})
		}
		next := bytes.IndexByte(text[end:], '\n')
		if next < 0 {
			break
		}
		from = end + next + 1
	}
	return hits
}

func before(text []byte, start, n int) (lines []string) {
	for at := start; n > 0 && at > 0; n-- {
		end := at - 1
		at = bytes.LastIndexByte(text[:end], '\n') + 1
		lines = append([]string{shown(text[at:end], 0)}, lines...)
	}
	return lines
}

func after(text []byte, end, n int) (lines []string) {
	for ; n > 0; n-- {
		i := bytes.IndexByte(text[end:], '\n')
		if i < 0 || end+i+1 >= len(text) {
			break
		}
		start := end + i + 1
		if end = bytes.IndexByte(text[start:], '\n'); end < 0 {
			end = len(text)
		} else {
			end += start
		}
		lines = append(lines, shown(text[start:end], 0))
	}
	return lines
}

// shown is a line for people: valid, and of a long one the part around a match.
func shown(line []byte, at int) string {
	line = bytes.TrimSuffix(line, []byte("\r"))
	lead, trail := "", ""
	if len(line) > maxText {
		from := min(max(at-maxText/4, 0), len(line)-maxText)
		to := from + maxText
		for from > 0 && !utf8.RuneStart(line[from]) {
			from--
		}
		for to < len(line) && !utf8.RuneStart(line[to]) {
			to--
		}
		if from > 0 {
			lead = "…"
		}
		if to < len(line) {
			trail = "…"
		}
		line = line[from:to]
	}
	return lead + strings.ToValidUTF8(string(line), "\uFFFD") + trail
}

// readFull fills p as far as the file goes. One read is enough when it gave all that
// the file said to have.
func readFull(f file, p []byte, size int64) (n int, err error) {
	for n < len(p) {
		var m int
		m, err = f.Read(p[n:])
		n += m
		if err == io.EOF || (err == nil && (m == 0 || (size > 0 && int64(n) == size))) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
