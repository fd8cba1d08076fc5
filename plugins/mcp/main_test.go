package main

import (
	"testing"

	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

func TestBinaryConforms(t *testing.T) {
	sdktest.RunBinary(t, sdktest.Build(t), `{"server":[{"name":"a","url":"http://127.0.0.1:1/mcp"},{"name":"b","command":["no-such-program"]}]}`)
}
