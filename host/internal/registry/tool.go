package registry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
	"github.com/bulkhead-dev/bulkhead/sdk/wire"
)

const maxDescription = 64 << 10 // characters; a longer one is refused

var nameRule = regexp.MustCompile(wire.ToolName)

// Rating is what the host settles about an offered tool.
type Rating struct {
	Group      string
	Tier       pluginv1.Tier
	TierFrom   string // config, map, plugin or default: who settled the tier
	Note       string // what of the operator's word was not followed, and why
	Exposure   pluginv1.Exposure
	Timeout    time.Duration // 0 = the plugin's
	Idempotent bool
}

// Tool is an offered tool with its owner and the host's rating.
type Tool struct {
	*pluginv1.Tool
	Owner    string
	Rating   Rating
	ReadOnly bool
	Mended   string // what was wrong with the schema, empty when it was kept as sent

	rated  Rating // as the rater said it, before the tool's own hints
	once   sync.Once
	schema *jsonschema.Schema
	broken error

	propsOnce sync.Once
	props     []Property

	entryOnce sync.Once
	entry     []byte
	entryErr  error
}

// Internal says that only plugins with a grant, and the operator, may call it.
func (t *Tool) Internal() bool { return t.Visibility == pluginv1.Visibility_VISIBILITY_INTERNAL }

// newTool checks one offered tool. The last version of the tool is reused when
// nothing of it changed, so that its schema is compiled once.
func newTool(owner string, t *pluginv1.Tool, rater Rater, last *Tool) (*Tool, *fault.Error) {
	if !nameRule.MatchString(t.Name) {
		return nil, fault.New(fault.BadOffer, "plugin %q offers a tool named %.80q: names match %s", owner, t.Name, wire.ToolName)
	}
	if !utf8.ValidString(t.Description) || len(t.Description) > maxDescription {
		return nil, fault.New(fault.BadOffer, "plugin %q: the description of tool %q is not text of at most %d bytes", owner, t.Name, maxDescription)
	}
	rating := rater.Rate(owner, t)
	if last != nil && last.Tool == t && last.Owner == owner && last.rated == rating {
		return last, nil
	}
	tool := &Tool{Tool: t, Owner: owner, Rating: rating, rated: rating}
	var hints struct {
		Idempotent bool `json:"idempotentHint"`
		ReadOnly   bool `json:"readOnlyHint"`
	}
	if len(t.Annotations) > 0 && json.Unmarshal(t.Annotations, &hints) == nil {
		tool.ReadOnly = hints.ReadOnly
		tool.Rating.Idempotent = rating.Idempotent || hints.Idempotent
	}
	t.InputSchema, tool.Mended = objectSchema(t.InputSchema)
	if len(t.OutputSchema) > 0 {
		if _, mended := objectSchema(t.OutputSchema); mended != "" {
			t.OutputSchema = nil
			tool.Mended = strings.TrimPrefix(tool.Mended+"; output schema dropped: "+mended, "; ")
		}
	}
	return tool, nil
}

// objectSchema keeps a usable schema as sent and mends what is not an object
// schema, so that one odd tool never costs its caller the whole list.
func objectSchema(raw []byte) (schema []byte, mended string) {
	empty := []byte(`{"type":"object","properties":{}}`)
	var top map[string]json.RawMessage
	if err := json.Unmarshal(raw, &top); err != nil || top == nil {
		return empty, "the schema is not a JSON object"
	}
	set := func(key, value string) {
		top[key] = json.RawMessage(value)
	}
	var notes []string
	if t := bytes.TrimSpace(top["type"]); !bytes.Equal(t, []byte(`"object"`)) {
		if len(t) > 0 && !bytes.Equal(t, []byte("null")) {
			return empty, fmt.Sprintf("the schema's type is %.40s, not object", t)
		}
		set("type", `"object"`)
		notes = append(notes, "type was missing")
	}
	if p, ok := top["properties"]; ok && bytes.Equal(bytes.TrimSpace(p), []byte("null")) {
		set("properties", "{}")
		notes = append(notes, "properties were null")
	}
	if len(notes) == 0 {
		return raw, ""
	}
	out, err := json.Marshal(top)
	if err != nil {
		return empty, "the schema can't be written again"
	}
	return out, strings.Join(notes, ", ")
}

// Schema is the compiled input schema. It is compiled on first use; a schema
// that does not compile is an error here and never keeps the tool from its list.
func (t *Tool) Schema() (*jsonschema.Schema, error) {
	t.once.Do(func() { t.schema, t.broken = Compile(t.InputSchema) })
	return t.schema, t.broken
}

// Entry is the tool as a door lists it, written once by the first caller's make.
func (t *Tool) Entry(make func(*Tool) ([]byte, error)) ([]byte, error) {
	t.entryOnce.Do(func() { t.entry, t.entryErr = make(t) })
	return t.entry, t.entryErr
}

// Properties are the declared top-level arguments in the schema's order.
func (t *Tool) Properties() []Property {
	t.propsOnce.Do(func() { t.props = properties(t.InputSchema) })
	return t.props
}

// Compile compiles a JSON schema that came from outside. References to other
// documents are refused: nothing is ever fetched.
func Compile(raw []byte) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("the schema is not JSON: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(refuseLoader{})
	if err := c.AddResource("mem:schema", doc); err != nil {
		return nil, err
	}
	return c.Compile("mem:schema")
}

type refuseLoader struct{}

func (refuseLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("reference to another document (%.80s) is refused", url)
}

func fold(s string) string { return strings.ToLower(s) }

func compare(a, b string) int { return strings.Compare(a, b) }

func sortStable[E any](s []E, f func(a, b E) int) { slices.SortStableFunc(s, f) }
