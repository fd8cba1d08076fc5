package sdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

type addArgs struct {
	A    int64           `json:"a" doc:"first, or only, number"`
	B    *int64          `json:"b"`
	Mode string          `json:"mode,omitempty" jsonschema:"enum=plain,enum=loud"`
	Tags []string        `json:"tags,omitempty"`
	Any  any             `json:"any,omitempty"`
	Raw  json.RawMessage `json:"raw,omitempty"`
}

type settings struct {
	Greeting string       `hcl:"greeting,optional" doc:"what to say"`
	Wait     sdk.Duration `hcl:"wait,optional"`
}

// samplePlugin offers one tool for each thing a test looks at.
func samplePlugin() *sdk.Plugin {
	conf := sdk.NewConfig(settings{Greeting: "hello"})
	conf.Reconfigure = func(_ context.Context, old, new *settings) (bool, error) {
		return old.Wait == new.Wait, nil
	}
	return &sdk.Plugin{
		Name: "sample", Version: "1.2.3", Settings: conf,
		Tools: []*sdk.Tool{
			sdk.NewTool("add", "Adds.", func(_ context.Context, call *sdk.Call, in addArgs) (sdk.Result, error) {
				sum := in.A
				if in.B != nil {
					sum += *in.B
				}
				return sdk.JSON(map[string]int64{"sum": sum})
			}, sdk.ReadOnly(), sdk.WithTier(sdk.Standard)),
			sdk.RawTool("echo", "Gives back what it gets.", json.RawMessage(`{"type":"object"}`), func(_ context.Context, call *sdk.Call) (sdk.Result, error) {
				return sdk.RawJSON(call.Arguments), nil
			}),
			sdk.NewTool("greet", "Greets.", func(context.Context, *sdk.Call, struct{}) (sdk.Result, error) {
				return sdk.TextResult(conf.Get().Greeting), nil
			}),
			sdk.NewTool("panic", "Panics.", func(context.Context, *sdk.Call, struct{}) (sdk.Result, error) {
				var none []string
				return sdk.TextResult(none[len(none)]), nil
			}),
			sdk.NewTool("wait", "Waits for its end.", func(ctx context.Context, _ *sdk.Call, _ struct{}) (sdk.Result, error) {
				<-ctx.Done()
				return sdk.Result{}, ctx.Err()
			}),
			sdk.NewTool("big", "Gives too much.", func(context.Context, *sdk.Call, struct{}) (sdk.Result, error) {
				return sdk.TextResult(strings.Repeat("x", 5<<20)), nil
			}),
			sdk.NewTool("steps", "Tells how it goes.", func(_ context.Context, call *sdk.Call, _ struct{}) (sdk.Result, error) {
				for i := 1; i <= 3; i++ {
					call.Progress(float64(i), 3, fmt.Sprint("step ", i))
				}
				call.Log("info", "sample", map[string]int64{"big": 9007199254740993})
				call.Partial(sdk.Text("half"))
				return sdk.TextResult("done"), nil
			}),
			sdk.NewTool("ask", "Asks for a name.", func(_ context.Context, call *sdk.Call, _ struct{}) (sdk.Result, error) {
				a, ok := call.Input["name"]
				if !ok {
					return sdk.NeedInput([]sdk.InputRequest{sdk.Form[struct {
						Name string `json:"name"`
					}]("name", "Who?")}, []byte("kept")), nil
				}
				var v struct{ Name string }
				if err := a.Decode(&v); err != nil {
					return sdk.Result{}, err
				}
				return sdk.Textf("%s %s %s round %d", a.Action, v.Name, call.State, call.Round), nil
			}),
			sdk.NewTool("fail", "Fails.", func(context.Context, *sdk.Call, struct{}) (sdk.Result, error) {
				return sdk.Result{}, sdk.Errorf(sdk.AuthRequired, "log in: %w", errors.New("no token")).WithRef("BH4001").After(time.Minute)
			}),
			sdk.NewTool("plainfail", "Fails in its own words.", func(context.Context, *sdk.Call, struct{}) (sdk.Result, error) {
				return sdk.Result{}, errors.New("just broken \xff")
			}),
			sdk.NewTool("remember", "Keeps something.", func(ctx context.Context, call *sdk.Call, _ struct{}) (sdk.Result, error) {
				_, err := call.Host().State().Put(ctx, "key", []byte("value"), false)
				return sdk.TextResult("kept"), err
			}),
			sdk.NewTool("broken", "Gives bad JSON.", func(context.Context, *sdk.Call, struct{}) (sdk.Result, error) {
				return sdk.Result{Structured: json.RawMessage(`{"a":`)}, nil
			}),
		},
		Prompts: []sdk.Prompt{{
			Name: "hi", Description: "Says hi.", Arguments: []sdk.PromptArgument{{Name: "to", Required: true}},
			Handler: func(_ context.Context, call *sdk.Call) (sdk.Result, error) {
				return sdk.PromptText("a greeting", "say hi: "+string(call.Arguments)), nil
			},
		}},
		Resources: []sdk.Resource{{
			URI: "sample://one", Name: "one", MIME: "text/plain",
			Handler: func(_ context.Context, _ *sdk.Call, uri string) (sdk.Result, error) {
				return sdk.ResourceText(uri, "text/plain", "the one"), nil
			},
		}},
		Guides:      []sdk.Guide{{Name: "sample", Summary: "How to use it.", Markdown: "# Sample"}},
		Orientation: []sdk.Orientation{{Text: "Use add to add.", AnyListed: []string{"add"}}},
	}
}

func TestConformance(t *testing.T) {
	sdktest.Run(t, samplePlugin, sdktest.SlowTool("wait", `{}`))
}

func TestArgumentsAndResultsAreBytes(t *testing.T) {
	s := sdktest.Start(t, samplePlugin())
	const odd = `{"z":1, "a":9007199254740993,"unknown":{"$ref":"#/x"},"n":1.10}`
	if r := s.Call("echo", odd); string(r.Structured) != odd {
		t.Errorf("the bytes changed:\n%s\n%s", odd, r.Structured)
	}
	s.Call("add", `{"a":9007199254740993,"b":1}`).WantText(`{"sum":9007199254740994}`)
	s.Call("add", `{"a":-9223372036854775808}`).WantText(`{"sum":-9223372036854775808}`)
}

func TestBadArguments(t *testing.T) {
	s := sdktest.Start(t, samplePlugin())
	for args, want := range map[string]string{
		`{}`:                         `"a" is required`,
		`{"a":"x"}`:                  `"a": string sent`,
		`{"a":1,"tags":[1]}`:         `tags`,
		`{"a":1,"what":1}`:           `unknown field "what"`,
		`{"a":99999999999999999999}`: `"a"`,
	} {
		s.Call("add", args).WantError("invalid_arguments", want)
	}
}

func TestErrors(t *testing.T) {
	s := sdktest.Start(t, samplePlugin())
	r := s.Call("fail", `{}`)
	r.WantError("auth_required", "no token")
	if r.Ref != "BH4001" || !r.Retryable || !r.IsError || r.Text == "" {
		t.Errorf("%+v", r)
	}
	s.Call("plainfail", `{}`).WantError("execution_failed", "just broken \uFFFD")
	s.Call("broken", `{}`).WantError("execution_failed", "not JSON")
	if r := s.Call("big", `{}`); r.Ref != "BH2010" {
		t.Errorf("%+v", r)
	}
}

func TestPanicCostsOneCall(t *testing.T) {
	s := sdktest.Start(t, samplePlugin())
	if r := s.Call("panic", `{}`); r.Code != "execution_failed" || r.Ref != "BH2013" {
		t.Errorf("%+v", r)
	}
	s.Call("greet", `{}`).WantText("hello")
}

func TestEventsComeInOrder(t *testing.T) {
	r := sdktest.Start(t, samplePlugin()).Call("steps", `{}`)
	want := "progress 1/3 step 1|progress 2/3 step 2|progress 3/3 step 3|log info {\"big\":9007199254740993}|partial half"
	if got := strings.Join(r.Events, "|"); got != want {
		t.Errorf("events\n%s\nwanted\n%s", got, want)
	}
	r.WantText("done")
}

func TestQuestionRound(t *testing.T) {
	s := sdktest.Start(t, samplePlugin())
	asked := s.Call("ask", `{}`)
	if len(asked.Questions) != 1 || asked.Questions[0].ID != "name" || !strings.Contains(string(asked.Questions[0].Schema), `"required":["name"]`) {
		t.Fatalf("%+v", asked)
	}
	s.Call("ask", `{}`, sdktest.Answering(asked, map[string][2]string{"name": {"accept", `{"name":"Ada"}`}})).
		WantText("accept Ada kept round 1")
}

func TestPromptAndResource(t *testing.T) {
	s := sdktest.Start(t, samplePlugin())
	if r := s.Call("hi", `{"to":"x"}`, sdktest.Prompt()); !strings.Contains(string(r.Raw), `"role":"user"`) {
		t.Errorf("%s", r.Raw)
	}
	if r := s.Call("sample://one", ``, sdktest.Resource()); !strings.Contains(string(r.Raw), `"text":"the one"`) {
		t.Errorf("%s", r.Raw)
	}
	s.Call("sample://two", ``, sdktest.Resource()).WantError("not_found", "sample://two")
}

func TestConfigureAgain(t *testing.T) {
	s := sdktest.Start(t, samplePlugin(), sdktest.Config(`{"greeting":"moin"}`))
	s.Call("greet", `{}`).WantText("moin")
	if got := s.Configure(`{}`); got != "reconfigured" {
		t.Error(got)
	}
	s.Call("greet", `{}`).WantText("hello")
	if got := s.Configure(`{"wait":"5s"}`); got != "restart_needed" {
		t.Error(got)
	}
	if got := s.Validate(`{"wait":"soon","greeting":7}`); len(got) != 2 || !strings.HasPrefix(got[0], "greeting: ") || !strings.HasPrefix(got[1], "wait: ") {
		t.Errorf("%q", got)
	}
}

func TestCheckFindsMistakes(t *testing.T) {
	type loop struct {
		Next []any `json:"next"`
	}
	p := &sdk.Plugin{Name: "Bad Name", Tools: []*sdk.Tool{
		sdk.NewTool("no spaces", "x", func(context.Context, *sdk.Call, loop) (sdk.Result, error) { return sdk.Result{}, nil }),
		sdk.NewTool("chan", "x", func(context.Context, *sdk.Call, struct{ C chan int }) (sdk.Result, error) { return sdk.Result{}, nil }),
		sdk.RawTool("raw", "x", json.RawMessage(`nonsense`), nil),
	}}
	err := p.Check()
	for _, want := range []string{"Bad Name", "no version", "no spaces", "chan int", "not a JSON object", "no handler"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}
