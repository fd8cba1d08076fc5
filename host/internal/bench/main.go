package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bulkhead-dev/bulkhead/host/internal/sandbox"
)

// figure is one measured value; Budget is how much it may be, or at least must
// be where AtLeast is set. A zero budget is for information.
type figure struct {
	Name    string
	Value   float64
	Low     float64 // spread over the rounds
	High    float64
	Unit    string
	Budget  float64
	AtLeast bool
}

func (f figure) verdict() string {
	switch {
	case f.Budget == 0:
		return "info"
	case f.AtLeast && f.Value < f.Budget, !f.AtLeast && f.Value > f.Budget:
		return "over"
	}
	return "ok"
}

// servers are what this program is when it is started as one of a comparison.
var servers = map[string]func(args []string) error{
	rawArg:  func(args []string) error { return rawServer(args[0], args[1]) },
	bareArg: func(args []string) error { return bareServer(len(args) > 0) },
	gateArg: func(args []string) error { return gateServer(args[0], args[1]) },
}

func main() {
	sandbox.MaybeRun()
	if len(os.Args) > 1 {
		if f := servers[os.Args[1]]; f != nil {
			if err := f(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, "bench:", os.Args[1]+":", err)
				os.Exit(1)
			}
			return
		}
	}
	check := flag.Bool("check", false, "fail when a figure is over its budget")
	rounds := flag.Int("rounds", 9, "rounds; medians are taken over them")
	only := flag.String("only", "", "the one part to run: "+strings.Join(partNames(), ", "))
	flag.Parse()
	if err := run(*check, max(*rounds, 7), *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// part is one measurement, on its own in a folder of its own.
type part struct {
	name    string
	measure func(ctx context.Context, dir string, b binaries, rounds int) ([]figure, error)
}

var parts = []part{
	{"call", callPath}, {"cpu", pipelineCPU}, {"mcp", mcpDoor}, {"bridge", bridged}, {"servers", bridgeFootprint}, {"scripts", scripts}, {"schedule", schedule}, {"list", bigList}, {"memory", footprint}, {"start", coldStart},
}

func partNames() (names []string) {
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

func run(check bool, rounds int, only string) error {
	if only != "" && !slices.Contains(partNames(), only) {
		return fmt.Errorf("there is no part %q; the parts are %s", only, strings.Join(partNames(), ", "))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "bhb")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bins, err := build(ctx, dir)
	if err != nil {
		return err
	}
	var all []figure
	for _, p := range parts {
		if only != "" && p.name != only {
			continue
		}
		sub, err := os.MkdirTemp(dir, "")
		if err != nil {
			return err
		}
		figures, err := p.measure(ctx, sub, bins, rounds)
		if err != nil {
			return err
		}
		all = append(all, figures...)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "FIGURE\tMEDIAN\tSPREAD\tBUDGET\t")
	for _, f := range all {
		budget := "-"
		if f.Budget > 0 {
			budget = "≤ "
			if f.AtLeast {
				budget = "≥ "
			}
			budget += fmt.Sprintf("%g %s", f.Budget, f.Unit)
		}
		fmt.Fprintf(w, "%s\t%.4g %s\t%.4g … %.4g\t%s\t%s\n", f.Name, f.Value, f.Unit, f.Low, f.High, budget, f.verdict())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	over := 0
	for _, f := range all {
		fmt.Printf("bench %s %.4g %g %s\n", f.Name, f.Value, f.Budget, f.verdict())
		if f.verdict() == "over" {
			over++
		}
	}
	if check && over > 0 {
		return fmt.Errorf("%d figures are over their budget", over)
	}
	return nil
}

// median makes a figure of the rounds' values.
func median(name, unit string, budget float64, atLeast bool, values []float64) figure {
	s := slices.Sorted(slices.Values(values))
	return figure{Name: name, Value: s[len(s)/2], Low: s[0], High: s[len(s)-1], Unit: unit, Budget: budget, AtLeast: atLeast}
}

// quantile is the value below which q of the values lie.
func quantile(values []time.Duration, q float64) time.Duration {
	s := slices.Sorted(slices.Values(values))
	return s[int(float64(len(s)-1)*q)]
}

func plugins(dir string) string { return filepath.Join(dir, "plugins") }
