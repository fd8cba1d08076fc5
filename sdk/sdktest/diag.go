package sdktest

import (
	"fmt"
	"strings"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// diagText writes a diagnostic as one line: path, colon, summary.
func diagText(d *pluginv1.Diagnostic) string {
	var path strings.Builder
	for _, step := range d.GetPath() {
		switch s := step.GetStep().(type) {
		case *pluginv1.PathStep_Attribute:
			if path.Len() > 0 {
				path.WriteByte('.')
			}
			path.WriteString(s.Attribute)
		case *pluginv1.PathStep_Index:
			fmt.Fprintf(&path, "[%d]", s.Index)
		case *pluginv1.PathStep_Key:
			fmt.Fprintf(&path, "[%q]", s.Key)
		case *pluginv1.PathStep_Block:
			if path.Len() > 0 {
				path.WriteByte('.')
			}
			fmt.Fprintf(&path, "%s[%d]", s.Block.GetTypeName(), s.Block.GetOrdinal())
		}
	}
	line := path.String() + ": " + d.GetSummary()
	if d.GetSeverity() == pluginv1.Severity_SEVERITY_WARNING {
		line = "warning: " + line
	}
	return line
}

func firstError(diags []*pluginv1.Diagnostic) string {
	for _, d := range diags {
		if d.GetSeverity() != pluginv1.Severity_SEVERITY_WARNING {
			return diagText(d)
		}
	}
	return ""
}
