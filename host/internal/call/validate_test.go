package call

import (
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// What does not fit is told in words where a pattern is for machines only.
func TestLongPatternsAreToldInWords(t *testing.T) {
	long := "^(" + strings.Repeat("[A-Za-z0-9]|", 20) + "x)$"
	schema := `{"type":"object","properties":{"long":{"type":"string","pattern":"` + long + `","description":"A public address."},"short":{"type":"string","pattern":"^[a-z]+$","description":"A word."},"bare":{"type":"string","pattern":"` + long + `"}}}`
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("s", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("s")
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]struct{ has, hasNot []string }{
		`{"long":"-"}`:  {[]string{`/long: it has not the form that is expected; sent "-"`, "A public address."}, []string{"A-Za-z0-9"}},
		`{"short":"-"}`: {[]string{"^[a-z]+$", "A word."}, nil},
		`{"bare":"-"}`:  {[]string{"A-Za-z0-9"}, nil},
	} {
		err := check(s, []byte(schema), []byte(args), "tool x")
		if err == nil {
			t.Fatal(args)
		}
		for _, w := range want.has {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v; want %q", args, err, w)
			}
		}
		for _, w := range want.hasNot {
			if strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v; without %q", args, err, w)
			}
		}
	}
}
