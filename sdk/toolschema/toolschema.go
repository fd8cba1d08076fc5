package toolschema

import (
	"embed"
	"encoding/json"
	"fmt"
)

// Names of the internal tools.
const (
	LLMGenerate    = "llm_generate"
	LLMModels      = "llm_models"
	LLMEmbed       = "llm_embed"
	BrowserRender  = "browser_render"
	MCPServerIndex = "mcp_server_index"
)

// Names lists the internal tools.
var Names = []string{LLMGenerate, LLMModels, LLMEmbed, BrowserRender, MCPServerIndex}

//go:embed *.json
var files embed.FS

// Arguments is the schema of an internal tool's arguments. It panics on a name
// that is not one of Names.
func Arguments(tool string) json.RawMessage { return read(tool + ".arguments.json") }

// Result is the schema of an internal tool's structured result.
func Result(tool string) json.RawMessage { return read(tool + ".result.json") }

func read(name string) json.RawMessage {
	raw, err := files.ReadFile(name)
	if err != nil {
		panic(fmt.Sprintf("toolschema: no schema %q", name))
	}
	return raw
}
