package main

import (
	"testing"

	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

func TestBinaryConforms(t *testing.T) {
	sdktest.RunBinary(t, sdktest.Build(t), `{"model":[{"tier":"high","provider":"openai","base_url":"http://127.0.0.1:9/v1","model":"m","api_key":"k"}],"budget":[{"agent":"default","tokens_per_day":1000}]}`)
}
