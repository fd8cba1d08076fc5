package sdk

import (
	"encoding/json"
	"strings"
	"testing"
)

type inner struct {
	Lat float64  `json:"lat" doc:"degrees, north positive"`
	Opt *string  `json:"opt"`
	Any any      `json:"any"`
	L   []inner2 `json:"l,omitempty"`
}

type inner2 struct {
	X int `json:"x" jsonschema:"minimum=1,maximum=9"`
}

type base struct {
	Common string `json:"common"`
}

func TestSchemaIsPlain(t *testing.T) {
	type args struct {
		base
		City  string         `json:"city" doc:"name of the city, in English"`
		Days  int            `json:"days,omitempty" jsonschema:"enum=1,enum=2,default=1"`
		At    *inner         `json:"at"`
		Tags  []string       `json:"tags,omitempty"`
		Lists [][]any        `json:"lists,omitempty"`
		Map   map[string]int `json:"map,omitempty"`
		Free  map[string]any `json:"free,omitempty"`
		Raw   json.RawMessage
		skip  int
	}
	_ = args{skip: 1}.skip
	got, err := Schema[args]()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"properties":{` +
		`"common":{"type":"string"},` +
		`"city":{"type":"string","description":"name of the city, in English"},` +
		`"days":{"type":"integer","enum":[1,2],"default":1},` +
		`"at":{"properties":{"lat":{"type":"number","description":"degrees, north positive"},"opt":{"type":"string"},"any":{},` +
		`"l":{"items":{"properties":{"x":{"type":"integer","maximum":9,"minimum":1}},"additionalProperties":false,"type":"object","required":["x"]},"type":"array"}},` +
		`"additionalProperties":false,"type":"object","required":["lat","any"]},` +
		`"tags":{"items":{"type":"string"},"type":"array"},` +
		`"lists":{"items":{"items":{},"type":"array"},"type":"array"},` +
		`"map":{"additionalProperties":{"type":"integer"},"type":"object"},` +
		`"free":{"type":"object"},` +
		`"Raw":{}},` +
		`"additionalProperties":false,"type":"object","required":["common","city","Raw"]}`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestSchemaOfNothing(t *testing.T) {
	got, err := Schema[struct{}]()
	if want := `{"properties":{},"additionalProperties":false,"type":"object"}`; err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
}

type recursive struct {
	Children []*recursive `json:"children"`
}

func TestSchemaRefusesWhatItCannotSay(t *testing.T) {
	if _, err := Schema[recursive](); err == nil || !strings.Contains(err.Error(), "contains itself") {
		t.Errorf("%v", err)
	}
	if _, err := Schema[struct{ F func() }](); err == nil {
		t.Error("a func has a schema")
	}
	if _, err := Schema[struct{ M map[int]string }](); err == nil {
		t.Error("a map by int has a schema")
	}
}
