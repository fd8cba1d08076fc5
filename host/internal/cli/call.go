package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/plain"
)

func (a *app) call() *cobra.Command {
	var agent, session string
	var raw, internal bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "call TOOL [JSON|-|@FILE|key=value …]", Short: "Call a tool", Args: takes("TOOL", "[ARGUMENT…]"),
		Long: "Call a tool. Arguments are one JSON object, - for stdin, @FILE, or key=value pairs.\nA value that is JSON is taken as JSON, everything else as text. Without a running host one is started for the call.",
		RunE: func(cmd *cobra.Command, args []string) error {
			arguments, err := a.arguments(args[1:])
			if err != nil {
				return usage(err)
			}
			if timeout < 0 {
				return exit{exitUsage, errors.New("--timeout is a time from now on, such as 30s")}
			}
			c, end, err := a.reachOrStart(cmd.Context(), a.logger("error"))
			if err != nil {
				return err
			}
			defer end()
			query := url.Values{}
			if raw {
				query.Set("shape", "none")
			}
			if internal {
				query.Set("internal", "true")
			}
			path := "/v1/tools/" + url.PathEscape(args[0]) + "/call?" + query.Encode()
			var result *api.CallResult
			progress := a.progress()
			err = c.stream(cmd.Context(), "POST", path, as(agent, session),
				api.CallRequest{Arguments: arguments, TimeoutMs: timeout.Milliseconds()}, func(line []byte) error {
					var e api.CallEvent
					if err := json.Unmarshal(line, &e); err != nil {
						return failed(fmt.Errorf("the host's answer can't be read: %w", err))
					}
					if e.Result != nil {
						result = e.Result
						return nil
					}
					progress(e)
					return nil
				})
			progress(api.CallEvent{})
			if err != nil {
				return err
			}
			if result == nil && cmd.Context().Err() != nil {
				return failed(errInterrupted)
			}
			if result == nil {
				return failed(errors.New("the host ended the call without a result"))
			}
			return a.showResult(result)
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "agent to call as")
	cmd.Flags().StringVar(&session, "session", "", "session to call in; a fresh one if not given")
	cmd.Flags().BoolVar(&raw, "raw", false, "print the whole result, however long")
	cmd.Flags().BoolVar(&internal, "internal", false, "admit internal tools")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "time the call gets")
	return cmd
}

// arguments reads the arguments of a call as they may stand on a command line.
func (a *app) arguments(args []string) (json.RawMessage, error) {
	if len(args) == 0 {
		return nil, nil
	}
	if len(args) == 1 && !pair(args[0]) {
		var raw []byte
		var err error
		switch {
		case args[0] == "-":
			raw, err = readAll(a.in)
		case strings.HasPrefix(args[0], "@"):
			var f *os.File
			if f, err = os.Open(args[0][1:]); err == nil {
				raw, err = readAll(f)
				_ = f.Close() // it was only read
			}
		default:
			raw = []byte(args[0])
		}
		if err != nil {
			return nil, err
		}
		if !json.Valid(raw) {
			var v any
			return nil, exit{exitUsage, fault.New(fault.BadJSON, "the arguments are not JSON: %w; use a JSON object, -, @FILE or key=value", json.Unmarshal(raw, &v))}
		}
		return raw, nil
	}
	out := []byte("{}")
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("%q is not key=value", arg)
		}
		raw := []byte(value)
		if !json.Valid(raw) {
			text, err := json.Marshal(value)
			if err != nil {
				return nil, err
			}
			raw = text
		}
		var err error
		if out, err = sjson.SetRawBytes(out, gjson.Escape(key), raw); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// maxRead is how much of a file or of stdin is read: more than any call may carry.
const maxRead = 8 << 20

func readAll(r io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxRead+1))
	if err == nil && len(raw) > maxRead {
		return nil, failed(fault.New(fault.ArgumentsTooBig, "the arguments are over %d MiB", maxRead>>20))
	}
	return raw, err
}

// pair says whether an argument is key=value rather than JSON, - or @FILE.
func pair(s string) bool {
	if s == "" || strings.ContainsAny(s[:1], `{["@`) {
		return false
	}
	return strings.Contains(s, "=")
}

// progress shows how a call goes on, on a terminal only.
func (a *app) progress() func(api.CallEvent) {
	if !terminal(a.errOut) || a.json {
		return func(api.CallEvent) {}
	}
	shown := false
	return func(e api.CallEvent) {
		switch {
		case e.Progress != nil:
			of := ""
			if e.Progress.Total > 0 {
				of = fmt.Sprintf(" of %g", e.Progress.Total)
			}
			fmt.Fprintf(a.errOut, "\r\033[K%g%s %s", e.Progress.Progress, of, plain.Line(e.Progress.Message))
			shown = true
		case e.Log != nil:
			fmt.Fprintf(a.errOut, "\r\033[K%s: %s\n", plain.Line(e.Log.Level), plain.Line(string(e.Log.Data)))
		case shown:
			fmt.Fprint(a.errOut, "\r\033[K")
		}
	}
}

// waits tells what a call waits for and how to go on.
func (a *app) waits(r *api.CallResult) {
	if r.Error != nil && !a.json {
		_, about, _ := strings.Cut(r.Error.Message, "\n")
		fmt.Fprintf(a.errPeople, "%s waits (%s)\n%s\n", r.ToolName, r.Error.Ref, about)
	}
	for _, id := range r.Questions {
		if a.json {
			fmt.Fprintln(a.errPeople, id)
		} else if r.Error != nil && r.Error.Ref == string(fault.NeedsApproval) {
			fmt.Fprintf(a.errPeople, "  → `bulkhead approve %s` or `bulkhead deny %s`\n", id, id)
		} else {
			fmt.Fprintf(a.errPeople, "  → `bulkhead answer %s key=value …`\n", id)
		}
	}
	if !a.json {
		fmt.Fprintf(a.errPeople, "  → then the same call with `--session %s`\n", r.Session)
	}
}

func (a *app) showResult(r *api.CallResult) error {
	if a.json {
		if err := a.print(r); err != nil {
			return failed(err)
		}
	}
	if r.IsError {
		if len(r.Questions) > 0 {
			a.waits(r)
			return exit{code: exitFailed}
		}
		if r.Error != nil {
			if a.json {
				return exit{code: exitFailed} // it stands in what was printed
			}
			return failed(r.Error)
		}
	}
	if a.json {
		if r.IsError {
			return exit{code: exitFailed}
		}
		return nil
	}
	w := a.screen()
	if r.IsError {
		w = a.errPeople
	}
	for _, block := range r.Content {
		if text := gjson.GetBytes(block, "text"); gjson.GetBytes(block, "type").Str == "text" {
			fmt.Fprintln(w, text.Str)
			continue
		}
		fmt.Fprintf(w, "%s\n", block)
	}
	if len(r.Content) == 0 && len(r.Structured) > 0 {
		fmt.Fprintf(w, "%s\n", r.Structured)
	}
	if r.IsError {
		return exit{code: exitFailed}
	}
	return nil
}
