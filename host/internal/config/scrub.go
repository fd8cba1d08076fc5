package config

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// scrubber knows the sensitive values of a config and takes them out of text.
type scrubber struct {
	mu     sync.Mutex
	values map[string]struct{}
}

// Shorter values can't be told from ordinary text.
const minScrubbed = 3

func (s *scrubber) add(value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values == nil {
		s.values = map[string]struct{}{}
	}
	forms := []string{value, strings.TrimSpace(value)}
	q := strconv.Quote(value)
	forms = append(forms, q[1:len(q)-1])
	if j, err := json.Marshal(value); err == nil {
		forms = append(forms, string(j[1:len(j)-1]))
	}
	for _, f := range forms {
		if len(f) >= minScrubbed {
			s.values[f] = struct{}{}
		}
	}
}

// addValue adds every string and number inside v.
func (s *scrubber) addValue(v cty.Value) {
	v, _ = v.UnmarkDeep()
	_ = cty.Walk(v, func(_ cty.Path, part cty.Value) (bool, error) {
		if part.IsKnown() && !part.IsNull() {
			switch part.Type() {
			case cty.String:
				s.add(part.AsString())
			case cty.Number:
				if !hugeNumber(part) {
					s.add(part.AsBigFloat().Text('f', -1))
				}
			}
		}
		return true, nil
	})
}

func (s *scrubber) text(t string) string {
	s.mu.Lock()
	values := slices.Collect(maps.Keys(s.values))
	s.mu.Unlock()
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	for _, v := range values {
		t = strings.ReplaceAll(t, v, hidden)
	}
	return t
}

func (s *scrubber) diags(diags hcl.Diagnostics) hcl.Diagnostics {
	for _, d := range diags {
		d.Summary, d.Detail = s.text(d.Summary), s.text(d.Detail)
	}
	return diags
}

// Scrub takes every sensitive value of the config out of a text that goes to a
// log, an error or a person.
func (c *Config) Scrub(text string) string { return c.scrub.text(text) }
