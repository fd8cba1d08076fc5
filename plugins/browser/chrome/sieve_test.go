package chrome

import (
	"bufio"
	"io"
	"os"
	"strings"
	"testing"
)

// Long events go, long answers become errors of their call, and what stands around
// them comes as it was.
func TestSieve(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	const limit = 1 << 20
	long := strings.Repeat("x", 3<<20)
	fits := `{"method":"Fits","params":"` + strings.Repeat("y", limit-100) + `"}`
	go func() {
		defer w.Close()
		for _, m := range []string{
			`{"method":"A"}`, `{"method":"Long","params":"` + long + `"}`, fits, `{"id":7,"result":{"value":"` + long + `"},"sessionId":"ABC123"}`,
			`{"id":8,"result":{"value":"` + long + `"}}`, `{"id":9,"result":{}}`,
		} {
			if _, err := io.WriteString(w, m+"\x00"); err != nil {
				t.Error(err)
			}
		}
	}()
	s := newSieve(r, limit)
	defer s.Close()
	in := bufio.NewReader(s)
	for _, want := range []string{`{"method":"A"}`, fits, `{"id":7,"error":{"code":-32000,"message":"the answer is larger than 1 MiB"},"sessionId":"ABC123"}`,
		`{"id":8,"error":{"code":-32000,"message":"the answer is larger than 1 MiB"}}`, `{"id":9,"result":{}}`} {
		got, err := in.ReadString(0)
		if err != nil || got != want+"\x00" {
			t.Fatalf("%v %.200s, not %.200s", err, got, want)
		}
	}
	if _, err := in.ReadByte(); err != io.EOF {
		t.Error(err)
	}
	if s.out.Cap() > 2*limit {
		t.Errorf("%d bytes are held", s.out.Cap())
	}
}
