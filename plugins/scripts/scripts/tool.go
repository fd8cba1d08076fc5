package scripts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/bulkhead-dev/bulkhead/plugins/scripts/kube"
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/local"
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/run"
	"github.com/bulkhead-dev/bulkhead/plugins/scripts/wheels"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// tool is execute_python_script. Its schema names the languages that there are.
func (s *scripts) tool(languages []string, installs bool) *sdk.Tool {
	packages := "Packages it needs. None can be installed here: what the system has can be imported."
	if installs {
		packages = "Packages it needs, such as pandas or numpy>=2; installed once and kept."
	}
	properties := `"script":{"type":"string","minLength":1,"description":"The source. What it prints is the result; files it leaves in /out are saved."},` +
		`"input_data":{"type":"string","description":"Text for the script: in the environment variable BULKHEAD_INPUT, and in the file /in/input."},` +
		`"timeout_seconds":{"type":"number","description":"Time the script has, up to 300."},` +
		`"pip_packages":{"type":"array","items":{"type":"string"},"description":"` + packages + `"}`
	if len(languages) > 1 || !slices.Contains(languages, run.Python) {
		names, err := json.Marshal(languages)
		if err != nil {
			panic(err) // strings
		}
		properties += `,"language":{"type":"string","enum":` + string(names) + `,"description":"What the script is written in; python without it."}`
	}
	schema := json.RawMessage(`{"type":"object","required":["script"],"additionalProperties":false,"properties":{` + properties + `}}`)
	return sdk.RawTool("execute_python_script",
		"Runs a Python script in a sandbox of its own, without network, and gives what it prints. It reads files under /shared, and saves those it writes to /out.",
		schema, s.execute, sdk.WithTitle("Run a script"), sdk.WithTier(sdk.Elevated), sdk.WithGroup("scripts"), sdk.WithSource("script"),
		sdk.WithTimeout(2*longest))
}

// arguments of a call. timeout_seconds may be a text.
type arguments struct {
	Script   string          `json:"script"`
	Input    string          `json:"input_data"`
	Timeout  json.RawMessage `json:"timeout_seconds"`
	Packages []string        `json:"pip_packages"`
	Language string          `json:"language"`
}

// report is the structured part of a result.
type report struct {
	Exit      int      `json:"exit_code"`
	Cause     string   `json:"ended_by"`
	WallMs    int64    `json:"wall_ms"`
	Memory    int64    `json:"peak_memory_bytes"`
	OutCut    bool     `json:"stdout_truncated"`
	ErrCut    bool     `json:"stderr_truncated"`
	Files     []string `json:"files"`
	FilesLost string   `json:"files_lost,omitempty"`
}

func (s *scripts) execute(ctx context.Context, call *sdk.Call) (sdk.Result, error) {
	var in arguments
	if err := json.Unmarshal(call.Arguments, &in); err != nil {
		return sdk.Result{}, sdk.Errorf(sdk.InvalidArguments, "the arguments can't be read: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if strings.TrimSpace(in.Script) == "" {
		return sdk.Result{}, sdk.Errorf(sdk.InvalidArguments, "script is empty")
	}
	conf := s.conf.Get()
	spec := run.Spec{Language: in.Language, Script: []byte(in.Script), Input: []byte(in.Input), Timeout: timeout(in.Timeout, conf.Timeout.Std())}
	if spec.Language == "" {
		spec.Language = run.Python
	}
	s.mu.Lock()
	runner, slots, store, fault := s.runner, s.slots, s.wheels, s.fault
	s.mu.Unlock()
	if runner == nil {
		return sdk.Result{}, sdk.Errorf(sdk.Unavailable, "scripts can't be run now: %s", fault)
	}
	if !slices.Contains(runner.Languages(), spec.Language) {
		return sdk.Result{}, sdk.Errorf(sdk.InvalidArguments, "%q is not run here; %s is", spec.Language, strings.Join(runner.Languages(), ", "))
	}
	select {
	case slots <- struct{}{}:
	default:
		call.Progress(0, 0, fmt.Sprintf("waiting: %d scripts run already", cap(slots)))
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return sdk.Result{}, context.Cause(ctx)
		}
	}
	defer func() { <-slots }()
	if len(in.Packages) > 0 {
		var err error
		if spec.Packages, err = s.packages(ctx, call, store, spec.Language, in.Packages); err != nil {
			return sdk.Result{}, err
		}
	}
	told := &teller{call: call}
	spec.Said = told.say
	got, err := runner.Run(ctx, spec)
	if ctx.Err() != nil {
		return sdk.Result{}, context.Cause(ctx)
	}
	var large *kube.TooLargeError
	switch {
	case errors.As(err, &large):
		return sdk.Result{}, sdk.Errorf(sdk.TooLarge, "%w", err)
	case err != nil:
		return sdk.Result{}, sdk.Errorf(sdk.Unavailable, "the script could not be run: %w", err)
	}
	out, err := s.result(call, spec, got)
	if runner.Name() == local.Unwalled {
		out.Content = append(out.Content, sdk.Text("[warning: this ran without a sandbox]"))
	}
	return out, err
}

// packages gives the folder of what a script needs, installing it first if need be.
func (s *scripts) packages(ctx context.Context, call *sdk.Call, store *wheels.Store, language string, names []string) (string, error) {
	if language != run.Python {
		return "", sdk.Errorf(sdk.InvalidArguments, "pip_packages are for python, not %s", language)
	}
	if store == nil {
		return "", sdk.Errorf(sdk.InvalidArguments, "packages can't be installed here: the operator has set no wheelhouse and no index; the standard library and what the system has can be imported")
	}
	names, err := wheels.Check(names)
	if err != nil {
		return "", sdk.Errorf(sdk.InvalidArguments, "pip_packages: %w", err)
	}
	call.Progress(0, 0, "packages: "+strings.Join(names, ", "))
	dir, err := store.Get(ctx, names)
	var refused *wheels.Refused
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case errors.As(err, &refused):
		return "", sdk.Errorf(sdk.InvalidArguments, "the packages %s can't be installed: %w", strings.Join(names, ", "), err)
	case err != nil:
		return "", sdk.Errorf(sdk.Unavailable, "the packages could not be installed: %w", err)
	}
	return dir, nil
}

// timeout reads what a caller asks for: a number, or one in a text; what is neither,
// or not above zero, is the usual time.
func timeout(raw json.RawMessage, usual time.Duration) time.Duration {
	text := strings.TrimSpace(strings.Trim(string(raw), `"`))
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds > 0) {
		return usual
	}
	return min(max(time.Duration(min(seconds, longest.Seconds())*float64(time.Second)), time.Second), longest)
}

// result maps a run: what it printed, why it failed, and its files.
func (s *scripts) result(call *sdk.Call, spec run.Spec, got run.Result) (sdk.Result, error) {
	r := report{Exit: got.Exit, Cause: got.Cause, WallMs: got.Wall.Milliseconds(), Memory: got.PeakMemory, OutCut: got.StdoutCut, ErrCut: got.StderrCut, Files: []string{}, FilesLost: got.FilesLost}
	stdout, stderr := shown(got.Stdout, got.StdoutCut), shown(got.Stderr, got.StderrCut)
	failed := got.Cause != run.Exited || got.Exit != 0
	text := stdout
	if failed {
		text = "Script failed (" + why(spec, got) + "):"
		if stderr != "" {
			text += "\n" + stderr
		}
		if stdout != "" {
			text += "\n[stdout]\n" + stdout
		}
	} else if text == "" {
		text = "(no output)"
	}
	out := sdk.Result{IsError: failed, Content: []sdk.Content{sdk.Text(text)}}
	folder := path.Join(call.Shared().Folder(), "attachments", "script-"+clip(call.ID, 12))
	for _, f := range got.Files {
		ref, err := call.Shared().WriteFile(path.Join(folder, f.Name), f.Data)
		if err != nil {
			r.FilesLost = fmt.Sprintf("%s could not be saved: %v", f.Name, err)
			break
		}
		ref.Note = "left in /out by the script"
		r.Files = append(r.Files, ref.Path)
		out.Content = append(out.Content, sdk.File(ref))
	}
	if r.FilesLost != "" {
		out.Content = append(out.Content, sdk.Text("[some files of /out were not saved: "+r.FilesLost+"]"))
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return sdk.Result{}, err
	}
	out.Structured = raw
	return out, nil
}

// why says how a script failed.
func why(spec run.Spec, got run.Result) string {
	switch got.Cause {
	case run.Timeout:
		return fmt.Sprintf("timed out after %s", spec.Timeout)
	case run.Memory:
		return fmt.Sprintf("it used more memory than it may: %d MiB", got.PeakMemory>>20)
	case run.Disk:
		return "it made more files than it may"
	case run.Output:
		return "it printed far more than is kept"
	case run.Lost:
		return "it ended what watches over it"
	}
	if got.Exit < 0 {
		return fmt.Sprintf("ended by signal %d", -got.Exit)
	}
	return fmt.Sprintf("exit %d", got.Exit)
}

func shown(text []byte, cut bool) string {
	s := strings.TrimSpace(strings.ToValidUTF8(string(text), "\uFFFD"))
	if cut {
		s += fmt.Sprintf("\n[output truncated after %d bytes]", len(text))
	}
	return s
}

func clip(s string, n int) string { return s[:min(len(s), n)] }

// teller passes on what a script prints while it runs, in pieces and not too often.
type teller struct {
	call *sdk.Call
	mu   sync.Mutex
	last time.Time
	text []byte
	n    float64
}

const (
	tellEvery = 200 * time.Millisecond
	tellMost  = 1000 // bytes of the newest output
)

func (t *teller) say(_ run.Stream, text []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, text...)
	t.n += float64(len(text))
	if time.Since(t.last) < tellEvery {
		if over := len(t.text) - tellMost; over > 0 {
			t.text = slices.Clone(t.text[over:])
		}
		return
	}
	t.last = time.Now()
	said := t.text[max(0, len(t.text)-tellMost):]
	for len(said) > 0 && !utf8.RuneStart(said[0]) {
		said = said[1:]
	}
	t.call.Progress(t.n, 0, strings.ToValidUTF8(string(said), "\uFFFD"))
	t.text = nil
}
