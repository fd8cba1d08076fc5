package call

import (
	"slices"

	"github.com/tidwall/gjson"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

// unique refuses arguments in which an object has a key twice, at any depth: whoever
// approves them sees both, a schema is held against one, and a tool takes one.
func unique(args []byte) error {
	if key, twice := repeated(gjson.ParseBytes(args)); twice {
		return fault.New(fault.BadJSON, "the arguments have the key %.60q twice in one object; which one is meant can't be told", key)
	}
	return nil
}

// repeated finds a key that stands twice in one object. The document is valid JSON,
// of a depth that has been checked.
func repeated(v gjson.Result) (key string, twice bool) {
	var few [16]string
	seen, many := few[:0], map[string]bool(nil)
	object := v.IsObject()
	if !object && !v.IsArray() {
		return "", false
	}
	v.ForEach(func(k, item gjson.Result) bool {
		if object {
			if slices.Contains(seen, k.Str) || many[k.Str] {
				key, twice = k.Str, true
				return false
			}
			if len(seen) < cap(few[:]) {
				seen = append(seen, k.Str)
			} else {
				if many == nil {
					many = map[string]bool{}
				}
				many[k.Str] = true
			}
		}
		key, twice = repeated(item)
		return !twice
	})
	return key, twice
}
