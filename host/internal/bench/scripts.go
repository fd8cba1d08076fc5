package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	scriptCalls = 12                     // a round
	scriptEvery = 150 * time.Millisecond // a caller's pace: the machine is idle in between
)

// scripts compares a script that does nothing, by way of host, plugin and sandbox, with
// the interpreter alone: with sandboxes kept ready, and without.
func scripts(ctx context.Context, dir string, b binaries, rounds int) ([]figure, error) {
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		fmt.Println("scripts: NOT RUN, /usr/bin/python3 is not installed")
		return nil, nil
	}
	bin := filepath.Join(dir, "bulkhead-plugin-scripts")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", bin, "./plugins/scripts")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build: %w\n%s", err, text)
	}
	var out []figure
	for _, warm := range []int{2, 0} {
		sub := filepath.Join(dir, fmt.Sprint("warm", warm))
		if err := os.Mkdir(sub, 0o755); err != nil {
			return nil, err
		}
		ratio, ms, err := scriptRounds(ctx, sub, b, bin, warm, rounds)
		if err != nil {
			return nil, err
		}
		if warm > 0 {
			out = append(out, median("script_p50_vs_python", "×", 1.6, false, ratio), median("script_p50", "ms", 60, false, ms))
			continue
		}
		out = append(out, median("script_cold_p50_vs_python", "×", 0, false, ratio))
	}
	return out, nil
}

func scriptRounds(ctx context.Context, dir string, b binaries, bin string, warm, rounds int) (ratio, ms []float64, err error) {
	file, err := world(dir, b, 0)
	if err != nil {
		return nil, nil, err
	}
	raw, err := os.ReadFile(file)
	if err == nil {
		raw = fmt.Appendf(raw, "plugin \"scripts\" {\n  binary = %q\n  config {\n    warm = %d\n  }\n}\n", bin, warm)
		err = os.WriteFile(file, raw, 0o600)
	}
	if err != nil {
		return nil, nil, err
	}
	s, _, end, err := serve(ctx, b.host, dir, file, 1)
	if err != nil {
		return nil, nil, err
	}
	defer end()
	door, err := httpDoor(s)
	if err != nil {
		return nil, nil, err
	}
	ours := newModern(door, "execute_python_script")
	for range rounds + 1 {
		var alone, through []time.Duration
		for range scriptCalls {
			time.Sleep(scriptEvery)
			begun := time.Now()
			if err := exec.CommandContext(ctx, "/usr/bin/python3", "-I", "-c", "pass").Run(); err != nil {
				return nil, nil, err
			}
			alone = append(alone, time.Since(begun))
			time.Sleep(scriptEvery)
			begun = time.Now()
			if _, err := ours.do(ctx, modernCall("execute_python_script", `{"script":"pass"}`), "(no output)"); err != nil {
				return nil, nil, err
			}
			through = append(through, time.Since(begun))
		}
		a, c := quantile(alone, 0.5), quantile(through, 0.5)
		ratio, ms = append(ratio, c.Seconds()/a.Seconds()), append(ms, c.Seconds()*1000)
	}
	return ratio[1:], ms[1:], nil
}
