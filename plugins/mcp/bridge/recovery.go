package bridge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/downstream"
	"github.com/bulkhead-dev/bulkhead/sdk"
	"github.com/bulkhead-dev/bulkhead/sdk/regular"
)

// A server that says that a field is missing gets it when somebody here knows the
// value: the time zone, the time, or the operator's defaults. Nothing is guessed,
// and a field that was sent is never sent otherwise.

const (
	// maxFills is how many fields of one call are filled in, one after the other.
	maxFills = 4
	// maxErrorBody is the most characters of a success that may be an error in disguise.
	maxErrorBody = 4096
	maxDefaults  = 1 << 20
)

// missingField are the ways servers name a field they want, the first that fits.
var missingField = []*regexp.Regexp{
	regexp.MustCompile("(?i)required parameter ['\"`]?([A-Za-z_][A-Za-z0-9_]*)"),
	regexp.MustCompile("(?i)['\"`]?\\b([A-Za-z_][A-Za-z0-9_]*)['\"`]? is required"),
	regexp.MustCompile("(?i)missing required argument:? ['\"`]?([A-Za-z_][A-Za-z0-9_]*)"),
	regexp.MustCompile("(?i)expected field ['\"`]?([A-Za-z_][A-Za-z0-9_]*)"),
	regexp.MustCompile("(?i)['\"`]?\\b([A-Za-z_][A-Za-z0-9_]*)['\"`]?: must be provided"),
}

// complaint is the text in which a result says that it failed; empty = it did not.
func complaint(r *sdk.Result) string {
	text := r.Text()
	if r.IsError {
		return text
	}
	if len(text) > maxErrorBody || !strings.HasPrefix(strings.TrimSpace(text), "{") || !(strings.Contains(text, `"error"`) || strings.Contains(text, `"Error"`)) {
		return ""
	}
	var m map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &m) != nil {
		return ""
	}
	for _, key := range []string{"error", "Error"} {
		var s string
		if json.Unmarshal(m[key], &s) == nil && s != "" {
			return s
		}
	}
	return ""
}

// wanted is the field a complaint names, if the tool declares it and it was not sent.
func wanted(text string, tool *downstream.Tool, args json.RawMessage) string {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	var sent map[string]json.RawMessage
	if text == "" || json.Unmarshal(tool.InputSchema, &schema) != nil || json.Unmarshal(args, &sent) != nil {
		return ""
	}
	for _, p := range missingField {
		for _, m := range p.FindAllStringSubmatch(text, 4) {
			if _, declared := schema.Properties[m[1]]; !declared {
				continue
			}
			if _, there := sent[m[1]]; there {
				return ""
			}
			return m[1]
		}
	}
	return ""
}

// fill gives the value of a field, and who knew it.
func (s *server) fill(tool, field string) (json.RawMessage, string) {
	switch {
	case slices.Contains([]string{"timeZone", "timezone", "tz"}, field):
		return quote(zone()), "time zone"
	case slices.Contains([]string{"now", "currentTime", "referenceTime"}, field):
		return quote(time.Now().Format(time.RFC3339)), "current time"
	}
	file := filepath.Join(s.b.plugin.Facts().DataDir, "tool-defaults", s.conf.Name+".json")
	raw, err := regular.Read(file, maxDefaults)
	if err != nil {
		return nil, ""
	}
	var entries []struct {
		Provider string          `json:"providerName"`
		Tool     string          `json:"tool"`
		Field    string          `json:"field"`
		Value    json.RawMessage `json:"value"`
	}
	if err := json.Unmarshal(raw, &entries); err != nil {
		s.log.Warn("tool defaults can't be read", "file", file, "error", err)
		return nil, ""
	}
	for _, e := range entries {
		if e.Field == field && (e.Tool == "" || strings.EqualFold(e.Tool, tool)) && len(e.Value) > 0 && !bytes.HasPrefix(bytes.TrimSpace(e.Value), []byte("[")) {
			return e.Value, orElse(e.Provider, "defaults")
		}
	}
	return nil, ""
}

// zone is the machine's time zone by its name.
func zone() string {
	if tz := os.Getenv("TZ"); tz != "" {
		return tz
	}
	if link, err := os.Readlink("/etc/localtime"); err == nil {
		if _, name, ok := strings.Cut(link, "zoneinfo/"); ok {
			return name
		}
	}
	return "UTC"
}

// with adds a member to a JSON object, all other bytes as they are.
func with(object json.RawMessage, key string, value json.RawMessage) json.RawMessage {
	inner := bytes.TrimSpace(object)
	inner = bytes.TrimSpace(inner[1 : len(inner)-1])
	var out bytes.Buffer
	out.WriteByte('{')
	if len(inner) > 0 {
		out.Write(inner)
		out.WriteByte(',')
	}
	out.Write(quote(key))
	out.WriteByte(':')
	out.Write(value)
	out.WriteByte('}')
	return out.Bytes()
}

// recover calls a tool again with fields that it says are missing and that are
// known here. once makes one call.
func (s *server) recover(session string, tool *downstream.Tool, args json.RawMessage, first sdk.Result, once func(json.RawMessage) (sdk.Result, error)) (sdk.Result, error) {
	result := first
	var filled []string
	seen := map[string]bool{}
	for {
		field := wanted(complaint(&result), tool, args)
		if field == "" || seen[field] {
			break
		}
		if len(filled) == maxFills {
			filled = append(filled, fmt.Sprintf("given up after %d fields", maxFills))
			break
		}
		value, who := s.fill(tool.Name, field)
		if value == nil {
			s.enrich(&result, session, tool, field)
			break
		}
		seen[field] = true
		filled = append(filled, fmt.Sprintf("%s was filled in from %s", field, who))
		args = with(args, field, value)
		next, err := once(args)
		if err != nil {
			return sdk.Result{}, err
		}
		result = next
	}
	if len(filled) > 0 && complaint(&result) != "" {
		result.IsError = true
		result.Content = append(result.Content, sdk.Text("[recovery-trail] The call was repeated and failed again: "+strings.Join(filled, "; ")+"."))
	}
	return result, nil
}
