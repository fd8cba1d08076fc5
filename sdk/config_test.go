package sdk

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

type remote struct {
	Name    string            `hcl:"name,label"`
	URL     string            `hcl:"url,optional"`
	Command []string          `hcl:"command,optional" bulkhead:"path=exec"`
	Headers map[string]string `hcl:"headers,optional" bulkhead:"sensitive"`
	Timeout Duration          `hcl:"tool_timeout,optional"`
	Guards  []guard           `hcl:"arg_guard,block"`
	Auth    *auth             `hcl:"auth,block"`
}

// Defaults is what a server block starts from.
func (s *remote) Defaults() { s.Timeout = Duration(time.Minute) }

type guard struct {
	Kind    string         `hcl:"kind,label"`
	Options map[string]any `hcl:"options,optional"`
}

type auth struct {
	Token string `hcl:"token" bulkhead:"sensitive"`
}

type bridge struct {
	Mode    string   `hcl:"wrapper_mode,optional" doc:"when tools are listed"`
	Max     int      `hcl:"max,optional"`
	Cache   Size     `hcl:"cache,optional"`
	Data    string   `hcl:"data" bulkhead:"path=read"`
	Limits  limits   `hcl:"limits,block"`
	Servers []remote `hcl:"server,block"`
	Hosts   []string `hcl:"hosts,optional"`
	own     int
}

type limits struct {
	Big int64 `hcl:"big,optional"`
}

func newBridge() *Config[bridge] {
	return NewConfig(bridge{Mode: "auto", Max: 3, Cache: 1 << 20, Limits: limits{Big: 7}, Hosts: []string{"a"}, own: 5})
}

func TestConfigBody(t *testing.T) {
	var got pluginv1.ConfigBody
	want := `{"attributes":[
		{"name":"wrapper_mode","type":"string","doc":"when tools are listed","defaultJson":"ImF1dG8i"},
		{"name":"max","type":"number","defaultJson":"Mw=="},
		{"name":"cache","type":"string","quantity":"QUANTITY_SIZE","defaultJson":"IjFNaUIi"},
		{"name":"data","type":"string","required":true,"path":"PATH_USE_READ"},
		{"name":"hosts","type":"list(string)","defaultJson":"WyJhIl0="}],
	"blocks":[
		{"typeName":"limits","maxItems":1,"body":{"attributes":[{"name":"big","type":"number","defaultJson":"Nw=="}]}},
		{"typeName":"server","labels":["name"],"body":{"attributes":[
			{"name":"url","type":"string"},
			{"name":"command","type":"list(string)","path":"PATH_USE_EXEC"},
			{"name":"headers","type":"map(string)","sensitive":true},
			{"name":"tool_timeout","type":"string","quantity":"QUANTITY_DURATION","defaultJson":"IjFtMHMi"}],
		"blocks":[
			{"typeName":"arg_guard","labels":["kind"],"body":{"attributes":[{"name":"options","type":"map(any)"}]}},
			{"typeName":"auth","maxItems":1,"body":{"attributes":[{"name":"token","type":"string","required":true,"sensitive":true}]}}]}}]}`
	if err := protojson.Unmarshal([]byte(want), &got); err != nil {
		t.Fatal(err)
	}
	if a, b := protojson.Format(&got), protojson.Format(newBridge().body()); a != b {
		t.Errorf("want\n%s\ngot\n%s", a, b)
	}
}

func TestConfigDecode(t *testing.T) {
	c := newBridge()
	v, diags := c.decode([]byte(`{"data":"/d","max":null,"cache":"2MiB","limits":{"big":9007199254740993},"hosts":["x","y"],
		"server":[{"name":"one","headers":{"k":"v"},"auth":{"token":"t"},
			"arg_guard":[{"kind":"path-prefix","options":{"n":9007199254740993,"list":["a"]}}]},
			{"name":"two","tool_timeout":"90s"}]}`))
	if len(diags) != 0 {
		t.Fatalf("%v", diags)
	}
	if v.Mode != "auto" || v.Max != 3 || v.Cache.Bytes() != 2<<20 || v.Limits.Big != 9007199254740993 || len(v.Hosts) != 2 || v.own != 5 {
		t.Errorf("%+v", v)
	}
	if len(v.Servers) != 2 || v.Servers[0].Timeout.Std() != time.Minute || v.Servers[1].Timeout.Std() != 90*time.Second || v.Servers[0].Auth.Token != "t" || v.Servers[1].Auth != nil {
		t.Errorf("%+v", v.Servers)
	}
	if n := v.Servers[0].Guards[0].Options["n"]; n != json.Number("9007199254740993") {
		t.Errorf("%T %v", n, n)
	}
	// The defaults stay what they were.
	v.Hosts[0] = "changed"
	again, _ := c.decode([]byte(`{"data":"/d"}`))
	if again.Hosts[0] != "a" || again.Cache != 1<<20 || again.Limits.Big != 7 || len(again.Servers) != 0 {
		t.Errorf("%+v", again)
	}
}

func TestConfigFaultsHaveAPath(t *testing.T) {
	for raw, want := range map[string]string{
		`{}`:                                `: "data" is required`,
		`{"data":"d","max":1.5}`:            `max: a whole number is wanted here, not 1.5`,
		`{"data":"d","max":"x"}`:            `max: a whole number is wanted here, not "x"`,
		`{"data":"d","hosts":["a",1]}`:      `hosts[1]: a string is wanted here, not 1`,
		`{"data":"d","cache":"lots"}`:       `cache: "lots" is not a size`,
		`{"data":"d","modes":1}`:            `modes: "modes" is not a setting`,
		`{"data":"d","limits":{"big":"x"}}`: `limits[0].big: `,
		`{"data":"d","server":[{"name":"a"},{"name":"b","tool_timeout":"-1s"}]}`:             `server[1].tool_timeout: "-1s" is not a duration`,
		`{"data":"d","server":[{"name":"a","headers":{"k":5}}]}`:                             `server[0].headers["k"]: "headers" has a value of the wrong kind`,
		`{"data":"d","server":[{"name":"a","auth":{}}]}`:                                     `server[0].auth[0]: "token" is required`,
		`{"data":"d","server":[{"name":"a","arg_guard":[{"kind":"x"},{"kind":"y","z":1}]}]}`: `server[0].arg_guard[1].z: "z" is not a setting`,
		`[]`: `: the config is not an object`,
	} {
		diags := newBridge().validate(context.Background(), []byte(raw))
		if len(diags) != 1 {
			t.Errorf("%s: %v", raw, diags)
			continue
		}
		if got := diags[0].Path.String() + ": " + diags[0].Summary; !strings.HasPrefix(got, want) {
			t.Errorf("%s\n got %s\nwant %s", raw, got, want)
		}
	}
}

func TestSensitiveValuesStayOutOfFaults(t *testing.T) {
	diags := newBridge().validate(context.Background(), []byte(`{"data":"d","server":[{"name":"a","auth":{"token":["s3cret"]},"headers":["s3cret"]}]}`))
	if len(diags) != 2 {
		t.Fatalf("%v", diags)
	}
	for _, d := range diags {
		if strings.Contains(d.Summary+d.Detail, "s3cret") {
			t.Errorf("%v", d)
		}
	}
}

func TestTagsThatMakeNoSense(t *testing.T) {
	for name, make := range map[string]func(){
		"option": func() {
			NewConfig(struct {
				A string `hcl:"a,what"`
			}{})
		},
		"double": func() {
			NewConfig(struct {
				A, B string `hcl:"a"`
			}{})
		},
		"type": func() {
			NewConfig(struct {
				A chan int `hcl:"a"`
			}{})
		},
		"use": func() {
			NewConfig(struct {
				A string `hcl:"a" bulkhead:"path=all"`
			}{})
		},
		"label": func() {
			NewConfig(struct {
				A []struct {
					L int `hcl:"l,label"`
				} `hcl:"a,block"`
			}{})
		},
		"private": func() {
			NewConfig(struct {
				a string `hcl:"a"`
			}{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("taken")
				}
			}()
			make()
		})
	}
}
