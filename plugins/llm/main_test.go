package main

import (
	"fmt"
	"testing"

	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

func TestBinaryConforms(t *testing.T) {
	sdktest.RunBinary(t, sdktest.Build(t),
		fmt.Sprintf(`{"model":[{"tier":"high","provider":"openai","base_url":"http://%s/v1","model":"m","api_key":"k"}],"budget":[{"agent":"default","tokens_per_day":1000}]}`, sdktest.Silent(t)),
		sdktest.SlowTool("llm_generate", `{"model_tier":"high","messages":[{"role":"user","content":"hello"}]}`))
}
