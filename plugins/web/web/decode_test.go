package web

import (
	"strings"
	"testing"

	"golang.org/x/text/encoding/charmap"
)

// A page that says it is UTF-8 and is not is read by its bytes; one with a damaged
// byte stays what it says.
func TestFalselyDeclared(t *testing.T) {
	const words = "Die Größe der Brücke überraschte die Gäste; später hörte man, daß sie für Fußgänger geschlossen würde. "
	long := "<html><head><meta charset=utf-8></head><body><p>" + strings.Repeat(words, 5) + "</p></body></html>"
	latin, err := charmap.ISO8859_1.NewEncoder().String(long)
	if err != nil {
		t.Fatal(err)
	}
	if got := toUTF8("text/html; charset=utf-8", []byte(latin), true); got != long {
		t.Errorf("%.200s", got)
	}
	damaged := strings.Replace(long, "Brücke", "Br\xfccke", 1)
	if got := toUTF8("text/html; charset=utf-8", []byte(damaged), true); !strings.Contains(got, "Br\ufffdcke") || !strings.Contains(got, "Größe") {
		t.Errorf("%.200s", got)
	}
}
