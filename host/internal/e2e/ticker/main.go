// Command ticker is a plugin with exclusive state: it writes a tick every 50 ms,
// each under a key of its own, and a generation that takes over writes what fell
// due meanwhile. When it was replaced it goes on trying to write, which must be
// refused.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/bulkhead-dev/bulkhead/sdk"
)

const interval = 50 * time.Millisecond

type ticker struct {
	plugin *sdk.Plugin
	stop   context.CancelFunc
	done   chan struct{}
	fenced chan struct{} // closed when a write was refused after the handover
}

func main() {
	t := &ticker{fenced: make(chan struct{})}
	t.plugin = &sdk.Plugin{
		Name: "ticker", Version: "1.0.0", Swap: sdk.Handover, Activate: t.activate, Drain: t.drain,
		Tools: []*sdk.Tool{
			sdk.NewTool("ticks", "Counts the ticks and what is wrong with them.", t.report),
			sdk.NewTool("tick_outlive", "Waits until this generation was replaced and its write refused.", func(ctx context.Context, _ *sdk.Call, _ struct{}) (sdk.Result, error) {
				select {
				case <-t.fenced:
					return sdk.TextResult("fenced"), nil
				case <-ctx.Done():
					return sdk.Result{}, ctx.Err()
				}
			}),
			sdk.NewTool("tick_echo", "Answers.", func(context.Context, *sdk.Call, struct{}) (sdk.Result, error) { return sdk.TextResult("here"), nil }),
		},
	}
	sdk.Serve(t.plugin)
}

func (t *ticker) activate(ctx context.Context) error {
	start, err := t.start(ctx)
	if err != nil {
		return err
	}
	next, err := t.last(ctx)
	if err != nil {
		return err
	}
	ctx, t.stop = context.WithCancel(ctx)
	t.done = make(chan struct{})
	go func() {
		defer close(t.done)
		for n := next; ; n++ {
			wait := time.NewTimer(time.Until(start.Add(time.Duration(n) * interval)))
			select {
			case <-wait.C:
			case <-ctx.Done():
				wait.Stop()
				return
			}
			t.tick(n)
		}
	}()
	return nil
}

// tick writes one tick. It is not cut by the drain: what was begun is finished.
func (t *ticker) tick(n uint64) {
	ctx, end := context.WithTimeout(context.Background(), 5*time.Second)
	defer end()
	state := t.plugin.Host().State()
	fresh, _, err := state.CompareAndSet(ctx, fmt.Sprintf("tick/%06d", n), 0, []byte("x"), false)
	if err == nil && !fresh {
		_, err = state.Put(ctx, fmt.Sprintf("doubled/%06d", n), []byte("x"), false)
	}
	if err != nil {
		t.plugin.Logger().Error("a tick was not written", "n", n, "error", err)
	}
}

// start is when tick 0 was due.
func (t *ticker) start(ctx context.Context) (time.Time, error) {
	state := t.plugin.Host().State()
	now := binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))
	if _, _, err := state.CompareAndSet(ctx, "start", 0, now, false); err != nil {
		return time.Time{}, err
	}
	raw, _, found, err := state.Get(ctx, "start")
	if err != nil || !found {
		return time.Time{}, errors.Join(err, errors.New("no start"))
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(raw))), nil
}

// keys lists all keys below a prefix.
func (t *ticker) keys(ctx context.Context, prefix string) ([]string, error) {
	var out []string
	for after := ""; ; {
		entries, next, err := t.plugin.Host().State().List(ctx, prefix, after, 500)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			out = append(out, e.Key)
		}
		if next == "" {
			return out, nil
		}
		after = next
	}
}

// last is the first tick that was not written.
func (t *ticker) last(ctx context.Context) (uint64, error) {
	keys, err := t.keys(ctx, "tick/")
	return uint64(len(keys)), err
}

// drain stops the ticker, and leaves a writer behind that does not know it.
func (t *ticker) drain(_ context.Context, reason string) error {
	t.stop()
	<-t.done
	if reason != "stop" {
		go func() {
			for {
				ctx, end := context.WithTimeout(context.Background(), time.Second)
				_, err := t.plugin.Host().State().Put(ctx, "rogue", []byte("x"), false)
				end()
				if sdk.CodeOf(err) == sdk.Fenced {
					close(t.fenced)
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
	}
	return nil
}

func (t *ticker) report(ctx context.Context, _ *sdk.Call, _ struct{}) (sdk.Result, error) {
	ticks, err := t.keys(ctx, "tick/")
	if err != nil {
		return sdk.Result{}, err
	}
	doubled, err := t.keys(ctx, "doubled/")
	if err != nil {
		return sdk.Result{}, err
	}
	lost := 0
	for i, k := range ticks {
		if k != fmt.Sprintf("tick/%06d", i) {
			lost++
		}
	}
	return sdk.Textf("ticks=%d lost=%d doubled=%d", len(ticks), lost, len(doubled)), nil
}
