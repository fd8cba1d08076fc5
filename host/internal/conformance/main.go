package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	tools := flag.String("tools", "tools/npm/node_modules", "folder with the suite and its Node")
	revisions := flag.String("requirements", "2025-11-25,2026-07-28", "revisions, separated by commas")
	scenario := flag.String("scenario", "", "run this scenario alone")
	url := flag.String("url", "", "test the server at this URL instead of the host")
	verbose := flag.Bool("v", false, "tell the reasons of unscored scenarios, too")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := &suite{modules: *tools, url: *url, scenario: *scenario}
	if err := run(ctx, s, strings.Split(*revisions, ","), *verbose || *scenario != ""); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s *suite, revisions []string, verbose bool) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "bhc")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if s.url == "" {
		h, err := serve(ctx, dir)
		if err != nil {
			return err
		}
		defer func() {
			if log := h.stop(); err != nil {
				fmt.Fprintf(os.Stderr, "\nThe host's log ends:\n%s", log)
			}
		}()
		s.url = "http://" + h.address + "/mcp"
	}
	var all []outcome
	for _, r := range revisions {
		outcomes, err := s.run(ctx, dir, r)
		if err != nil {
			return err
		}
		all = append(all, outcomes...)
	}
	if len(all) == 0 {
		return errors.New("nothing was run")
	}
	failed, err := report(all, verbose)
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d scored scenarios fail", failed)
	}
	return err
}

// report prints a line a scenario, then what went wrong, and counts the scored
// scenarios that fail.
func report(all []outcome, verbose bool) (failed int, err error) {
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "REVISION\tSCENARIO\tSCORED\tRESULT\tCHECKS")
	for _, o := range all {
		result := "pass"
		switch {
		case o.fails():
			result = "FAIL"
		case o.count("WARNING") > 0:
			result = "pass, with warnings"
		}
		scored := "yes"
		if !o.Scored {
			scored = "no"
		} else if o.fails() {
			failed++
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d of %d\n", o.Revision, o.Scenario, scored, result, o.count("SUCCESS"), len(o.Checks))
	}
	if err := w.Flush(); err != nil {
		return failed, err
	}
	for _, o := range all {
		if !o.Scored && !verbose {
			continue
		}
		for _, c := range o.Checks {
			if c.Status == "FAILURE" || c.Status == "WARNING" {
				fmt.Printf("\n%s %s, %s %s\n  %s\n  %s\n", o.Revision, o.Scenario, strings.ToLower(c.Status), c.ID, c.Description, clip(c.Error))
			}
		}
	}
	for _, r := range revisionsOf(all) {
		pass, total := 0, 0
		for _, o := range all {
			if o.Revision == r && o.Scored {
				total++
				if !o.fails() {
					pass++
				}
			}
		}
		fmt.Printf("\n%s: %d of %d scored scenarios pass\n", r, pass, total)
	}
	return failed, nil
}

func revisionsOf(all []outcome) (out []string) {
	for _, o := range all {
		if len(out) == 0 || out[len(out)-1] != o.Revision {
			out = append(out, o.Revision)
		}
	}
	return out
}

// clip keeps an error readable: some quote whole messages.
func clip(s string) string {
	if r := []rune(s); len(r) > 1500 {
		return string(r[:1500]) + "…"
	}
	return s
}
