//go:build linux

package kube_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/bulkhead/plugins/scripts/kube"
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/scripts"
	"github.com/bulkhead-dev/bulkhead/sdk/sdktest"
)

// The tool is the same in a cluster.
func TestThePluginInACluster(t *testing.T) {
	file, left := kube.KubeconfigOfACluster(t)
	s := sdktest.Start(t, scripts.Plugin(), sdktest.Config(fmt.Sprintf(`{"runner":"kubernetes","kubeconfig":%q}`, file)), sdktest.Granted("shared"))
	s.Call("execute_python_script", `{"script":"import os\nprint(os.environ['BULKHEAD_INPUT'])\nopen('/out/f.txt', 'w').write('1')","input_data":"in"}`).WantText("in")
	if files, err := filepath.Glob(filepath.Join(s.SharedDir, "attachments/script-*/f.txt")); err != nil || len(files) != 1 {
		t.Errorf("%v %v", files, err)
	}
	if r := s.Call("execute_python_script", `{"script":"1/0"}`); !r.IsError || !strings.Contains(r.Text, "ZeroDivisionError") {
		t.Errorf("%q", r.Text)
	}
	s.Call("execute_python_script", `{"script":"x","pip_packages":["numpy"]}`).WantError("invalid_arguments", "can't be installed here")
	s.Call("execute_python_script", fmt.Sprintf(`{"script":"x","input_data":%q}`, strings.Repeat("y", 1<<20))).WantError("too_large", "at most")
	if degraded, detail := s.Health(); degraded || detail != "runner kubernetes for python" {
		t.Errorf("%v %s", degraded, detail)
	}
	if n := left(); n != 0 {
		t.Errorf("%d pods are left", n)
	}
}
