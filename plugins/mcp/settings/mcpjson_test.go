package settings

import (
	"os"
	"strings"
	"testing"
)

// A fault of an mcp.json names the server and the member as they stand there, and no
// type of this program; what would be lost silently is told.
func TestFaultsOfAnMCPJSONAreInItsOwnTerms(t *testing.T) {
	for member, want := range map[string]string{
		`"url":5`: "mcpServers.mine.url: a text is wanted here, not a number", `"command":["a"]`: "mcpServers.mine.command: a text is wanted here, not a list",
		`"command":"a","args":"b"`: "mcpServers.mine.args: a list is wanted here, not a text", `"command":"a","env":{"A":true}`: "a text is wanted here, not true or false",
		`"url":"https://x.example/","disabled":"no"`: "mcpServers.mine.disabled: true or false is wanted here, not a text", `"url":"https://x.example/","auth":"t"`: "mcpServers.mine.auth: an object is wanted here",
		`"url":"https://x.example/","toolTimeoutMs":"5"`: "mcpServers.mine.toolTimeoutMs: a number is wanted here",
		`"headers":{}`: `server "mine" needs a url or a command`, `"command":"a","headers":{"A":"b"}`: `server "mine" is a command`,
	} {
		all := Defaults()
		got, _, err := ReadJSON([]byte(`{"mcpServers":{"mine":{`+member+`}}}`), os.LookupEnv, &all)
		if err != nil || len(got) != 1 || !strings.Contains(got[0].Problem, want) || strings.Contains(got[0].Problem, "Go ") || strings.Contains(got[0].Problem, `"x"`) {
			t.Errorf("%s: %v %+v", member, err, got)
		}
	}
	for raw, want := range map[string]string{
		`{"mcpServers":{"mine":{"url":"https://x.example/","command":"a"}}}`:                       "mcpServers.mine has a url and a command",
		`{"mcpServers":{"mine":{"url":"https://x.example/","url":"https://y.example/"}}}`:          "mcpServers.mine.url stands there more than once",
		`{"mcpServers":{"mine":{"command":"a"}},"mcpServers":{"mine":{"command":"a"}}}`:            "mcpServers stands there more than once",
		`{"mcpServers":{"mine":{"url":"https://x.example/"},"Mine":{"url":"https://y.example/"}}}`: "another entry has this name",
	} {
		all := Defaults()
		if _, notes, err := ReadJSON([]byte(raw), os.LookupEnv, &all); err != nil || !strings.Contains(strings.Join(notes, "\n"), want) {
			t.Errorf("%s: %v %q", raw, err, notes)
		}
	}
}
