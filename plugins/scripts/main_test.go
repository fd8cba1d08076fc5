package main

import (
	"testing"

	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

func TestBinaryConforms(t *testing.T) {
	sdktest.RunBinary(t, sdktest.Build(t), `{"languages":["python","shell"],"timeout":"60s","warm":1}`,
		sdktest.SlowTool("execute_python_script", `{"script":"import time\nwhile True: time.sleep(1)"}`))
}
