package main

import (
	"testing"

	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

func TestBinaryConforms(t *testing.T) {
	sdktest.RunBinary(t, sdktest.Build(t), `{"allow_hosts":["intranet.example"],"render_timeout":"30s"}`)
}
