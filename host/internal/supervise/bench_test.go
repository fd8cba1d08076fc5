//go:build linux

package supervise

import (
	"context"
	"slices"
	"testing"
	"time"

	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// BenchmarkInvoke measures a call against a raw unary request over the very same
// connection, interleaved, and reports both medians and their ratio.
func BenchmarkInvoke(b *testing.B) {
	v := newBench(b, nil)
	v.add(v.plugin("p"))
	u, err := v.unit("p")
	if err != nil {
		b.Fatal(err)
	}
	client := u.cur.Load().proc.Client()
	args := []byte(`{"text":"` + string(slices.Repeat([]byte("x"), 100)) + `"}`)
	var calls, raws []time.Duration
	b.ResetTimer()
	for range b.N {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		begun := time.Now()
		if _, _, err := v.Invoke(ctx, "p", false, &pluginv1.InvokeRequest{CallId: callID(), Name: "echo", Arguments: args}, nil); err != nil {
			b.Fatal(err)
		}
		calls = append(calls, time.Since(begun))
		begun = time.Now()
		if _, err := client.Validate(ctx, &pluginv1.ValidateRequest{ConfigJson: args}); err != nil {
			b.Fatal(err)
		}
		raws = append(raws, time.Since(begun))
		cancel()
	}
	slices.Sort(calls)
	slices.Sort(raws)
	call, raw := calls[len(calls)/2], raws[len(raws)/2]
	b.ReportMetric(float64(call.Microseconds()), "p50-call-µs")
	b.ReportMetric(float64(raw.Microseconds()), "p50-raw-µs")
	b.ReportMetric(float64(call)/float64(raw), "ratio")
}
