package workspace

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/workspace/ledger"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// Version of the plugin.
const Version = "0.1.0"

//go:embed guide.md
var guide string

// files is the plugin at work.
type files struct {
	plugin *sdk.Plugin
	conf   *sdk.Config[settings]
	ledger ledger.Ledger

	mu     sync.RWMutex
	spaces *spaces // of the settings in force; opened by the first who needs them
}

// Plugin builds the plugin.
func Plugin() *sdk.Plugin {
	f := &files{conf: sdk.NewConfig(defaults())}
	f.conf.Validate = validate
	f.conf.Reconfigure = func(ctx context.Context, _, fresh *settings) (bool, error) { return true, f.apply(ctx, fresh) }
	f.plugin = &sdk.Plugin{
		Name: "workspace", Version: Version,
		Settings: f.conf,
		Tools:    []*sdk.Tool{f.readTool(), f.writeTool(), f.editTool(), f.listTool(), f.searchTool(), f.revertTool(), f.deleteTool(), f.pathTool()},
		Guides:   []sdk.Guide{{Name: "workspace", Summary: "Reading, changing, searching and restoring files.", Markdown: guide}},
		Grants:   []string{"shared"},
		Sandbox:  sdk.Sandbox{Profile: "strict", Network: "none"},
		Swap:     sdk.Handover, // two must not write one history
		Activate: func(context.Context) error {
			s, done, err := f.use()
			if err != nil {
				return err
			}
			defer done()
			for _, one := range s.all {
				if err := one.Sweep(); err != nil {
					f.plugin.Logger().Warn("what was half written is still there", "workspace", one.name, "error", err)
				}
			}
			return nil
		},
	}
	return f.plugin
}

// apply opens the folders of new settings, and closes those of the old once no call
// is in them.
func (f *files) apply(_ context.Context, s *settings) error {
	fresh, err := openSpaces(f.plugin, s)
	if err != nil {
		return err
	}
	f.mu.Lock()
	old := f.spaces
	f.spaces = fresh
	f.mu.Unlock()
	if old != nil {
		old.release()
	}
	return nil
}

// use gives the folders for one call. A call may come before Activate.
func (f *files) use() (*spaces, func(), error) {
	f.mu.RLock()
	s := f.spaces
	if s != nil {
		s.hold()
	}
	f.mu.RUnlock()
	if s != nil {
		return s, s.release, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.spaces == nil {
		if f.plugin.Facts().DataDir == "" {
			return nil, nil, sdk.Errorf(sdk.Unavailable, "the plugin is not configured yet").After(time.Second)
		}
		var err error
		if f.spaces, err = openSpaces(f.plugin, f.conf.Get()); err != nil {
			return nil, nil, err
		}
	}
	f.spaces.hold()
	return f.spaces, f.spaces.release, nil
}

// place finds the file a path names.
func (f *files) place(path string) (place, func(), error) {
	s, done, err := f.use()
	if err != nil {
		return place{}, nil, err
	}
	p, err := s.find(path)
	if err != nil {
		done()
		return place{}, nil, err
	}
	return p, done, nil
}

// reader is who reads, for the ledger: a session, or an agent without one.
func reader(call *sdk.Call) string {
	if call.SessionRef != "" {
		return call.SessionRef
	}
	return "agent " + call.Agent
}

// isNull says whether an argument was sent as null, which is not an empty text.
func isNull(arguments json.RawMessage, name string) bool {
	var m map[string]json.RawMessage
	return json.Unmarshal(arguments, &m) == nil && string(m[name]) == "null"
}

// own is an error with a code, if it is one already.
func own(err error) bool {
	var e *sdk.Error
	return errors.As(err, &e)
}
