package launch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/bulkhead-dev/bulkhead/sdk/regular"
)

// CheckBinary refuses a plugin binary that someone else could have put there or
// could change: it must be a regular executable that only its owner can write,
// in a folder that only its owner can write, and a symlink may not lead out of
// folder (empty: the binary's own).
func CheckBinary(path, folder string) error {
	if folder == "" || !within(folder, path) {
		folder = filepath.Dir(path)
	}
	real, err := follow(path)
	if err != nil {
		return err
	}
	root, err := follow(folder)
	if err != nil {
		return err
	}
	if !within(root, real) {
		return fmt.Errorf("%s leads out of %s, to %s", path, folder, real)
	}
	info, err := os.Stat(real)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", real)
	}
	return checkModes(real, info, root)
}

// CheckHead refuses what no system starts: an empty file, or a text that names no
// interpreter. Trying it again would not help.
func CheckHead(path string) error {
	f, err := regular.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return err
	}
	if head = head[:n]; !bytes.HasPrefix(head, []byte("#!")) && bytes.IndexByte(head, 0) < 0 {
		return fmt.Errorf("%s is no program: it is empty or a text", path)
	}
	return nil
}

// follow is filepath.EvalSymlinks, whose errors always name the file.
func follow(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	var named *os.PathError
	if err != nil && !errors.As(err, &named) {
		err = fmt.Errorf("the links of %s lead nowhere: %w", path, err)
	}
	return real, err
}

func within(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && rel != "." && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// Hash is the SHA-256 of a binary in hex.
func Hash(path string) (string, error) {
	f, err := regular.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// copyPinned copies a binary and hashes what it copies, so that exactly the
// bytes that were checked are run.
func copyPinned(from, to, want string) (err error) {
	in, err := regular.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o500)
	if err != nil {
		return err
	}
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, h), in)
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); !strings.EqualFold(got, want) {
		os.Remove(to)
		return fmt.Errorf("the sha256 of %s is %s, the config pins %s", from, got, want)
	}
	return nil
}
