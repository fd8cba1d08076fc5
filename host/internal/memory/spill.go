package memory

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"unicode/utf8"
)

// spill writes a value beside its place and renames it there.
func (m *Memory) spill(id uint64, value []byte) (string, error) {
	path := filepath.Join(m.o.SpillDir, fmt.Sprintf("value-%016x", id))
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	_, err = f.Write(value)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		os.Remove(tmp)
		return "", err
	}
	return path, nil
}

// limits of a range inside total bytes.
func limits(total, offset, length int64) (from, to int64) {
	from = min(max(offset, 0), total)
	to = total
	if length > 0 && length < total-from {
		to = from + length
	}
	return from, to
}

// cutRange takes a range and moves its ends back to the beginning of a rune, so
// that reading on from the end of one range loses and repeats nothing.
func cutRange(value []byte, offset, length int64) []byte {
	from, to := limits(int64(len(value)), offset, length)
	from, to = from-back(value, from), to-back(value, to)
	if from == to && to < int64(len(value)) && length > 0 { // less than one rune was asked for
		_, n := utf8.DecodeRune(value[to:])
		to += int64(n)
	}
	return value[from:to]
}

// back is how many bytes at lies behind the beginning of the rune it splits; 0
// when the bytes there are no text.
func back(value []byte, at int64) int64 {
	if at <= 0 || at >= int64(len(value)) || utf8.RuneStart(value[at]) {
		return 0
	}
	for n := int64(1); n < utf8.UTFMax && n <= at; n++ {
		if utf8.RuneStart(value[at-n]) {
			if r, size := utf8.DecodeRune(value[at-n:]); r != utf8.RuneError && int64(size) > n {
				return n
			}
			return 0
		}
	}
	return 0
}

// readRange is cutRange on a file: it reads a few bytes more on both sides.
func readRange(f *os.File, total, offset, length int64) ([]byte, error) {
	from, to := limits(total, offset, length)
	start := max(0, from-utf8.UTFMax)
	end := min(total, to+utf8.UTFMax)
	buf := make([]byte, end-start)
	if n, err := f.ReadAt(buf, start); err != nil && !(errors.Is(err, io.EOF) && n == len(buf)) {
		return nil, err
	}
	from, to = from-start, to-start
	from, to = from-back(buf, from), to-back(buf, to)
	if from == to && to < int64(len(buf)) && length > 0 {
		_, n := utf8.DecodeRune(buf[to:])
		to += int64(n)
	}
	return buf[from:to:to], nil
}

// headBytes is how much of a value is kept for previews and searches.
const headBytes = 4096

func head(value []byte) string {
	return string(cutRange(value, 0, headBytes))
}
