package kube

import (
	"context"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bulkhead-dev/bulkhead/plugins/scripts/inside"
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/run"
)

// listen follows a pod's log until its keeper has said how the script ended, which is
// complete, or the log ends. A stream that breaks off is opened again from its
// beginning, and what was heard already is passed over.
func (r *Runner) listen(ctx context.Context, name string, s run.Spec) (got run.Result, complete bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout+endTime)
	defer cancel()
	e := &inside.Ear{Said: s.Said, Order: inside.For(s, r.o.Limits, maxLogFiles)}
	for try := 0; try < 5; try++ {
		e.Begin()
		var stream io.ReadCloser
		stream, err = r.api.CoreV1().Pods(r.o.Namespace).GetLogs(name, &corev1.PodLogOptions{Container: container, Follow: true}).Stream(ctx)
		if err == nil {
			err = e.Hear(stream)
			stream.Close()
			if got, complete = e.Result(); complete || err == nil {
				return got, complete, err
			}
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			got, _ = e.Result()
			return got, false, ctx.Err()
		}
	}
	got, complete = e.Result()
	return got, complete, err
}
