package main

import (
	"testing"

	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

func TestBinaryConforms(t *testing.T) {
	sdktest.RunBinary(t, sdktest.Build(t), `{"max_size":"8MiB","types":["image/png"],"max_pages":3}`)
}
