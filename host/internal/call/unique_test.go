package call

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestUnique(t *testing.T) {
	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, `"k%d":{"k1":[]},`, i)
	}
	for args, twice := range map[string]bool{
		`{}`: false, `{"a":1,"A":2}`: false, `{"a":{"a":{"a":[{"a":1},{"a":2}]}}}`: false, `{"a":"a","b":"a"}`: false,
		`{"a":1,"a":2}`: true, `{"a":1,"\u0061":1}`: true, `{"x":[[{"a":1,"b":2,"a":3}]]}`: true, `{"":1,"":2}`: true,
		`{` + many.String() + `"x":1}`:                   false,
		`{` + many.String() + `"k99":1}`:                 true,
		`{` + many.String() + `"k3":1}`:                  true,
		`{` + many.String() + `"x":{"y":1,"z":2,"y":3}}`: true,
	} {
		if !json.Valid([]byte(args)) {
			t.Fatal(args)
		}
		if err := unique([]byte(args)); (err != nil) != twice {
			t.Errorf("%.80s: %v", args, err)
		}
	}
}
