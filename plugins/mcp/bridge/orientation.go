package bridge

import "github.com/bulkhead-dev/bulkhead/sdk"

const (
	about = "MCP servers connect you to outside services: calendars, trackers, files, databases. When a request touches one, ask the server instead of answering from memory. " +
		"mcp_list_services says which servers there are and whether they are reachable."
	typed = " A server's tool goes by {server}__{tool} and takes its parameters directly."
	lists = " Those you see in your list can be called at once."
	seek  = " Not all are in your list. Search for one with mcp_find_tools, in words for what should be done; what it finds is callable from then on, by its name or through call_tool. " +
		"It also finds prompts, whose names end in -prompt and which return instructions to follow."
	escape = " mcp_invoke_tool is the way out when no typed tool fits: server_name and tool_name as the server spells them, and every parameter inside arguments."
	more   = " A wrong name is answered with the right ones: pick from these rather than guessing again. The guide named mcp has the whole reference."
)

// orientation is what an agent is told of MCP before its first call.
func orientation(mode string) []sdk.Orientation {
	text := about
	switch mode {
	case "off":
		text += escape
	case "eager":
		text += typed + lists + escape
	default:
		text += typed + seek + escape
	}
	return []sdk.Orientation{{Text: text + more, AnyListed: []string{"mcp_list_services", "mcp_find_tools", "mcp_invoke_tool"}, Order: 50}}
}
