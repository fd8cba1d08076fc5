package call

import (
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tidwall/gjson"

	"github.com/bulkhead-dev/bulkhead/host/internal/content"
)

// What the schema library looks at is what it would have decoded itself.
func FuzzDecoded(f *testing.F) {
	for _, s := range []string{`{}`, `null`, `true`, `"a\"\u00e9\ud83d\ude00\ud800"`, `9007199254740993`, `-1.5e300`, `[]`, `[1,[2,{"a":null}]]`, `{"a":1,"a":2,"":{"b":[false]}}`, " {\n\"a\" : [ ] } "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		if content.Check([]byte(doc)) != nil {
			return
		}
		want, err := jsonschema.UnmarshalJSON(strings.NewReader(doc))
		if err != nil {
			t.Fatal(err) // content.Check takes nothing it would not
		}
		if got := decoded(gjson.Parse(doc)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, not %#v", doc, got, want)
		}
	})
}
