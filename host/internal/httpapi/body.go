package httpapi

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/bulkhead-dev/bulkhead/host/internal/content"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
)

// body reads a request's body into a struct: one JSON object, each key once and as
// it is written in the struct's tags. A key nobody knows is refused by name, in
// another case too: it is a misspelt one more often than one from the future.
func body(r *http.Request, v any) error {
	bad := func(format string, args ...any) error { return fault.New(fault.BadJSON, format, args...) }
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		var tooBig *http.MaxBytesError
		if errors.As(err, &tooBig) {
			return fault.New(fault.ArgumentsTooBig, "the request body is over %d bytes: %w", tooBig.Limit, err)
		}
		return bad("the body could not be read: %w", err)
	}
	known := keys(v)
	if len(raw) == 0 {
		return bad("the request has no body; it is a JSON object with the keys %s, or {}", strings.Join(known, ", "))
	}
	if !utf8.Valid(raw) {
		return bad("the body is not UTF-8")
	}
	if err := content.Check(raw); err != nil {
		return bad("the body is %v", err)
	}
	object := gjson.ParseBytes(raw)
	if !object.IsObject() {
		return bad("the body is no JSON object, but %.40s", object.Raw)
	}
	seen := map[string]bool{}
	object.ForEach(func(key, _ gjson.Result) bool {
		switch {
		case !slices.Contains(known, key.Str):
			err = bad("the body has a key %.60q; known here are %s", key.Str, strings.Join(known, ", "))
		case seen[key.Str]:
			err = bad("the body has the key %q twice", key.Str)
		}
		seen[key.Str] = true
		return err == nil
	})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, v); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return bad("%s is %s, not %s", kind.Field, wanted(kind.Type), kind.Value)
		}
		return bad("the body can't be read: %w", err)
	}
	return nil
}

// keys are the names of a struct's fields in JSON.
func keys(v any) (out []string) {
	t := reflect.TypeOf(v).Elem()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		out = append(out, name)
	}
	return out
}

// wanted is a type as people name it.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Int64, reflect.Int:
		return "a whole number"
	case reflect.Bool:
		return "true or false"
	}
	return "something else"
}
