package bridge

import (
	"strings"
	"testing"

	"github.com/bulkhead-dev/bulkhead/plugins/mcp/internal/badtest"
)

// A call during which the server floods gives one clear error, and the next one runs,
// whoever talks to the server; no other server notices.
func TestAFloodCostsOneCall(t *testing.T) {
	for _, isolation := range []string{"shared", "server"} {
		t.Run(isolation, func(t *testing.T) {
			flooding := bad(t, "flooding", "storm")
			flooding["isolation"] = isolation
			s := start(t, nil, flooding, bad(t, "good"))
			awaitTool(t, s, "flooding__storm")
			awaitTool(t, s, "good__echo")
			for range 2 {
				r := s.Call("flooding__storm", `{"kind":"ping","ms":60000,"deaf":true}`)
				r.WantError("execution_failed", "requests whose answers it has not taken; it was not repeated")
				if r.Retryable {
					t.Error("what may have had its effect is called retryable")
				}
				s.Call("good__echo", `{"n":1}`).WantText("echo")
				s.Call("flooding__echo", `{"n":1}`).WantText("echo")
			}
		})
	}
}

// A server that says all the time that its offer changed is slowed down, and its
// status says so.
func TestAStormIsNamed(t *testing.T) {
	s := start(t, nil, bad(t, "noisy", "storm"))
	awaitTool(t, s, "noisy__storm")
	s.Call("noisy__storm", `{"kind":"list","n":12000}`).WantText("over")
	if note := services(t, s)["noisy"].Note; !strings.Contains(note, "had to wait") {
		t.Error(note)
	}
	s.Call("noisy__echo", `{"n":1}`).WantText("echo")
}

// What a server repeats of its env and headers stands in no error and no status.
func TestSecretsAreHidden(t *testing.T) {
	const secret = "hunter2-topsecret"
	crashing, chatting := bad(t, "crashing", "stderr="+secret), bad(t, "chatting", "banner="+secret)
	for _, c := range []conf{crashing, chatting} {
		c["env"] = conf{"SECRET": secret}
	}
	s := start(t, nil, crashing, chatting)
	awaitTool(t, s, "chatting__echo")
	badtest.Await(t, "the reason", func() bool { return strings.Contains(services(t, s)["crashing"].Error, "no API key: [hidden]") })
	s.Call("mcp_list_resources", args("server_name", "crashing")).WantError("unavailable", "no API key: [hidden]")
	if note := services(t, s)["chatting"].Note; !strings.Contains(note, "Welcome") || strings.Contains(note, secret) || !strings.Contains(note, "[hidden]") {
		t.Error(note)
	}
	if text := s.Call("mcp_list_services", "{}").Text; strings.Contains(text, secret) {
		t.Error(text)
	}
}
