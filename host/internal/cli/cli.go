package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"unicode"

	"github.com/hashicorp/hcl/v2"
	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/config"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/plain"
)

// Version is set by the build.
var Version = "dev"

// The exit codes.
const (
	exitOK = iota
	exitFailed
	exitUsage
	exitNoHost
)

// exit carries an exit code up to Main. Its error, if any, is still to be told.
type exit struct {
	code int
	err  error
}

func (e exit) Unwrap() error { return e.err }

func (e exit) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func failed(err error) error { return exit{exitFailed, err} }

// usage is an error of what was typed, unless it says otherwise itself.
func usage(err error) error {
	var e exit
	if errors.As(err, &e) {
		return e
	}
	return exit{exitUsage, err}
}

// app is what every command works with.
type app struct {
	in          io.Reader
	out, errOut io.Writer
	// What people read goes here: nothing in it moves their cursor. Only what is
	// meant for machines goes past it.
	people, errPeople io.Writer
	config            string
	json              bool
	colour            bool
}

// Main runs the command line and returns the exit code. The first interrupt asks
// the command to end, the second ends the process at once.
func Main(args []string, in io.Reader, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	defer stop()
	a := &app{in: in, out: out, errOut: errOut, people: plain.Writer(out), errPeople: plain.Writer(errOut), colour: terminal(errOut) && os.Getenv("NO_COLOR") == ""}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	root.SuggestionsMinimumDistance = 2
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	var e exit
	if !errors.As(err, &e) {
		e = exit{exitUsage, err} // cobra's own complaints
	}
	if e.err != nil {
		a.complain(e)
		if e.code == exitUsage && !a.json {
			fmt.Fprintf(a.errPeople, "  → `%s --help` tells how\n", cmd.CommandPath())
		}
	}
	return e.code
}

func terminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use: "bulkhead", Short: "Run every tool subsystem of an agent as a process of its own, behind one door",
		SilenceUsage: true, SilenceErrors: true, Version: version(),
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		Args:              takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmd.Help(); err != nil {
				return err
			}
			return exit{code: exitUsage}
		},
	}
	root.PersistentFlags().StringVar(&a.config, "config", "", "config file (config.hcl here, else in the user config dir)")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		// These travel in headers, where no control character can stand.
		for _, name := range []string{"agent", "session"} {
			if f := cmd.Flags().Lookup(name); f != nil && strings.ContainsFunc(f.Value.String(), unicode.IsControl) {
				return exit{exitUsage, fmt.Errorf("--%s is a name without control characters, not %q", name, f.Value)}
			}
		}
		return nil
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return exit{exitUsage, err} })
	root.AddCommand(a.serve(), a.mcp(), a.check(), a.status(), a.tools(), a.call(), a.guide(),
		a.questions(), a.answer(), a.verdict("approve"), a.verdict("deny"), a.events(), a.inbox(), a.schedule(), a.plugin(), a.reload())
	return root
}

func version() string {
	if Version != "dev" {
		return Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return Version
}

// load reads the config; its faults are printed with their places.
func (a *app) load() (*config.Config, error) {
	cfg, diags, err := a.read()
	if err == nil && diags.HasErrors() {
		err = a.faults(cfg, diags)
	}
	if err != nil {
		return nil, err
	}
	return cfg, nil
}

func (a *app) read() (*config.Config, hcl.Diagnostics, error) {
	path, err := config.Find(a.config)
	if err != nil {
		return nil, nil, failed(err)
	}
	cfg, diags := config.Load(path)
	return cfg, diags, nil
}

// faults prints what is wrong with a config, and is the end of a command.
func (a *app) faults(cfg *config.Config, diags hcl.Diagnostics) error {
	if a.json {
		fmt.Fprintf(a.screen(), "%s\n", config.JSON(diags))
	} else if err := config.Write(a.errOut, diags, cfg.Sources(), a.colour); err != nil {
		return failed(err)
	}
	return exit{code: exitFailed}
}

// screen is stdout for bytes as they are: on a terminal they are shown, elsewhere
// passed on.
func (a *app) screen() io.Writer {
	if terminal(a.out) {
		return a.people
	}
	return a.out
}

// print writes a value for machines.
func (a *app) print(v any) error {
	return encode(a.screen(), v)
}

// printed writes a value as part of what people read.
func (a *app) printed(v any) error { return encode(a.people, v) }

func encode(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// complain tells an error on stderr: what happened, its code, what to do.
func (a *app) complain(err error) {
	var f *fault.Error
	var e *api.Error
	switch {
	case errors.As(err, &e):
	case errors.As(err, &f):
		e = &api.Error{Code: string(f.Class), Message: f.Message, Retryable: f.Retryable, Ref: string(f.Ref), RetryAfterMs: f.RetryAfter.Milliseconds()}
	default:
		e = &api.Error{Code: string(fault.ExecutionFailed), Message: err.Error()}
		var x exit
		if errors.As(err, &x) && x.code == exitUsage {
			e.Code = string(fault.InvalidArguments)
		}
	}
	if a.json {
		w := a.errOut
		if terminal(w) {
			w = a.errPeople
		}
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(map[string]*api.Error{"error": e}) // nowhere left to complain
		return
	}
	if e.Ref == "" {
		fmt.Fprintf(a.errPeople, "bulkhead: %s\n", e.Message)
		return
	}
	fmt.Fprintf(a.errPeople, "bulkhead: %s (%s)\n", e.Message, e.Ref)
	if row, ok := fault.Lookup(fault.Ref(e.Ref)); ok {
		fmt.Fprintf(a.errPeople, "  → %s\n", row.Remedy)
	}
}
