package main

import (
	"testing"

	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

func TestBinaryConforms(t *testing.T) {
	sdktest.RunBinary(t, sdktest.Build(t), `{"time_zone":"Europe/Vienna","max_tasks_per_agent":5,"webhook":{"secret":"0123456789abcdef"}}`)
}
