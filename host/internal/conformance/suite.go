package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// suite is the npm package, and the server it tests.
type suite struct {
	modules  string
	url      string
	scenario string // empty = all
}

// outcome is how one scenario went.
type outcome struct {
	Revision, Scenario string
	Scored             bool
	Checks             []check
}

// check is one entry of the file the suite writes for a scenario.
type check struct {
	ID          string `json:"id"`
	Description string `json:"description"`
	Status      string `json:"status"` // SUCCESS, FAILURE, WARNING, SKIPPED or INFO
	Error       string `json:"errorMessage"`
}

func (o outcome) count(status string) (n int) {
	for _, c := range o.Checks {
		if c.Status == status {
			n++
		}
	}
	return n
}

// fails is what the suite itself calls a failure; a scenario that has checked
// nothing has not passed either.
func (o outcome) fails() bool { return o.count("FAILURE") > 0 || len(o.Checks) == 0 }

func (s *suite) command(ctx context.Context, args ...string) (*exec.Cmd, error) {
	node := filepath.Join(s.modules, "node", "bin", "node")
	program := filepath.Join(s.modules, "@modelcontextprotocol", "conformance", "dist", "index.js")
	for _, file := range []string{node, program} {
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("%w; run `make tools` first", err)
		}
	}
	cmd := exec.CommandContext(ctx, node, append([]string{program}, args...)...)
	cmd.WaitDelay = 5 * time.Second
	return cmd, nil
}

// run runs the scenarios of a revision and gives their outcomes in the suite's order.
func (s *suite) run(ctx context.Context, dir, revision string) ([]outcome, error) {
	scored, other, err := s.scenarios(ctx, revision)
	if err != nil {
		return nil, err
	}
	names, choice := append(slices.Clone(scored), other...), []string{"--requirements", revision}
	if s.scenario != "" {
		if !slices.Contains(names, s.scenario) {
			fmt.Printf("%s has no scenario %q\n", revision, s.scenario)
			return nil, nil
		}
		names, choice = []string{s.scenario}, []string{"--scenario", s.scenario, "--spec-version", revision, "--force"}
	}
	out := filepath.Join(dir, "results-"+revision)
	cmd, err := s.command(ctx, append([]string{"server", "--url", s.url, "-o", out}, choice...)...)
	if err != nil {
		return nil, err
	}
	said, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) { // failed scenarios are the outcomes' to tell
		return nil, err
	}
	var all []outcome
	for _, name := range names {
		checks, err := results(out, name)
		if err != nil {
			return nil, err
		}
		if len(checks) == 0 {
			checks = []check{{ID: name, Status: "FAILURE", Description: "The suite gives no result.", Error: tail(said, name)}}
		}
		all = append(all, outcome{revision, name, slices.Contains(scored, name), checks})
	}
	return all, nil
}

// results reads what the suite wrote for a scenario: a folder server-NAME-TIME with
// its checks.
func results(out, name string) (checks []check, err error) {
	files, err := filepath.Glob(filepath.Join(out, "server-"+name+"-2*", "checks.json"))
	if err != nil || len(files) == 0 {
		return nil, err
	}
	raw, err := os.ReadFile(files[len(files)-1])
	if err != nil {
		return nil, err
	}
	return checks, json.Unmarshal(raw, &checks)
}

// tail is what the suite said of a scenario without a result.
func tail(said []byte, name string) string {
	if _, after, ok := bytes.Cut(said, []byte("=== Running scenario: "+name)); ok {
		said, _, _ = bytes.Cut(after, []byte("\n==="))
	}
	return strings.TrimSpace(string(said))
}

// scenarios asks the suite for a revision's server scenarios, those that count and
// those that are only run.
func (s *suite) scenarios(ctx context.Context, revision string) (scored, other []string, err error) {
	cmd, err := s.command(ctx, "list", "--server", "--requirements", revision)
	if err != nil {
		return nil, nil, err
	}
	said, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("the suite knows no requirements %q: %w", revision, err)
	}
	part := ""
	for line := range strings.Lines(string(said)) {
		item, listed := strings.CutPrefix(strings.TrimSpace(line), "- ")
		switch {
		case !listed && strings.TrimSpace(line) != "" && line[0] != ' ':
			part = line
		case listed && strings.HasPrefix(part, "Server scenarios"):
			scored = append(scored, item)
		case listed && strings.HasPrefix(part, "Run and reported"):
			if name, ok := strings.CutSuffix(item, " [server]"); ok {
				other = append(other, name)
			}
		}
	}
	if len(scored) == 0 {
		return nil, nil, fmt.Errorf("the suite lists no server scenarios for %s", revision)
	}
	return scored, other, nil
}
