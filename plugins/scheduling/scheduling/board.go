package scheduling

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/book"
	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/calendar"
	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/keeper"
	"github.com/bulkhead-dev/bulkhead/plugins/scheduling/task"
	"github.com/bulkhead-dev/bulkhead/sdk"
)

// boardArgs are those of the internal tool.
type boardArgs struct {
	Action string `json:"action" jsonschema:"enum=list,enum=show,enum=run,enum=pause,enum=resume,enum=cancel,enum=calendar"`
	Agent  string `json:"agent,omitempty" doc:"Whose tasks; of list and calendar all without it."`
	Name   string `json:"name,omitempty"`
	By     string `json:"by,omitempty" doc:"Who does it."`
	Limit  int    `json:"limit,omitempty" doc:"Most tasks of a list, 500 without it."`
	Offset int    `json:"offset,omitempty"`
}

// Row is a task on the board.
type row struct {
	Agent       string          `json:"agent"`
	Name        string          `json:"name"`
	ID          string          `json:"id"`
	When        string          `json:"when"`
	TimeZone    string          `json:"time_zone"`
	Does        string          `json:"does"`
	Action      string          `json:"action"`
	Session     string          `json:"session"`
	Description string          `json:"description"`
	Next        time.Time       `json:"next,omitzero"`
	Overdue     bool            `json:"overdue"`
	Paused      string          `json:"paused,omitempty"`
	Running     int             `json:"running"`
	Fired       int             `json:"fired"`
	Missed      string          `json:"missed"`
	Overlap     string          `json:"overlap"`
	Created     time.Time       `json:"created"`
	LastRun     *task.Run       `json:"last_run,omitempty"`
	Upcoming    []time.Time     `json:"upcoming,omitempty"`
	Runs        []task.Run      `json:"runs,omitempty"`
	Arguments   json.RawMessage `json:"arguments,omitempty"`
}

type board struct {
	Now      time.Time   `json:"now"`
	TimeZone string      `json:"time_zone"`
	Total    int         `json:"total"`
	Tasks    []row       `json:"tasks"`
	Past     []book.Past `json:"past,omitempty"`
	Faults   []string    `json:"faults,omitempty"`
	Wakes    int64       `json:"wakes"`
}

const (
	maxRows     = 500
	maxCalendar = 1000
	perTask     = 50 // fires of one task in a calendar
)

func (s *scheduler) boardTool() *sdk.Tool {
	return sdk.NewTool("schedule_board", "The scheduler's state as JSON, for the host's command line and dashboard.", s.board,
		sdk.Internal(), sdk.WithSource(source), sdk.WithGroup("scheduling"), sdk.WithTier(sdk.Standard), sdk.Unshaped())
}

func (s *scheduler) board(ctx context.Context, _ *sdk.Call, in boardArgs) (sdk.Result, error) {
	b := board{Now: s.clock.Now(), TimeZone: zoneName(s.clock.Now().In(s.zone), s.zone), Tasks: []row{}, Faults: s.keeper.Faults(), Wakes: s.keeper.Wakes()}
	if in.Limit <= 0 || in.Limit > maxRows {
		in.Limit = maxRows
	}
	if in.Action == "list" || in.Action == "calendar" {
		views, err := s.keeper.List(ctx, in.Agent)
		if err != nil {
			return sdk.Result{}, err
		}
		if in.Action == "calendar" {
			return sdk.TextResult(events(views, b.Now)), nil
		}
		b.Total = len(views)
		views = views[min(max(in.Offset, 0), len(views)):]
		for _, v := range views[:min(in.Limit, len(views))] {
			b.Tasks = append(b.Tasks, rowOf(v, false))
		}
		if in.Agent != "" {
			if b.Past, err = s.keeper.Past(ctx, in.Agent); err != nil {
				return sdk.Result{}, err
			}
		}
		return sdk.JSON(b)
	}
	v, found, err := s.one(ctx, in)
	if err == nil && !found {
		err = sdk.Errorf(sdk.NotFound, "agent %q has no scheduled task named %q", in.Agent, in.Name)
	}
	if err != nil {
		return sdk.Result{}, err
	}
	b.Total, b.Tasks = 1, []row{rowOf(v, true)}
	return sdk.JSON(b)
}

// one does something with one task and shows it.
func (s *scheduler) one(ctx context.Context, in boardArgs) (v keeper.View, found bool, err error) {
	switch in.Action {
	case "show":
		return s.keeper.Get(ctx, in.Agent, in.Name)
	case "run":
		v, _, found, err = s.keeper.Run(ctx, in.Agent, in.Name)
		return v, found, err
	case "pause":
		by := in.By
		if by == "" {
			by = "the operator"
		}
		return s.keeper.Pause(ctx, in.Agent, in.Name, "by "+by)
	case "resume":
		return s.keeper.Resume(ctx, in.Agent, in.Name)
	case "cancel":
		return s.keeper.Cancel(ctx, in.Agent, in.Name)
	}
	return v, false, sdk.Errorf(sdk.InvalidArguments, "action is list, show, run, pause, resume, cancel or calendar, not %.40q", in.Action)
}

func rowOf(v keeper.View, whole bool) row {
	r := row{Agent: v.Owner, Name: v.Name, ID: v.ID, When: when(v), TimeZone: v.Zone.String(), Does: does(v), Action: v.Action.Kind, Session: sessionOf(v),
		Description: v.Description, Next: v.Next, Overdue: v.Overdue, Paused: v.Paused, Running: len(v.Owed), Fired: v.Fired, Missed: v.Missed,
		Overlap: v.Overlap, Created: v.Created}
	if n := len(v.Runs); n > 0 {
		r.LastRun = &v.Runs[n-1]
	}
	if whole {
		r.Upcoming, r.Runs, r.Arguments = v.Upcoming(5), v.Runs, v.Action.Arguments
	} else if text := []rune(v.Description); len(text) > 200 {
		r.Description = string(text[:199]) + "…"
	}
	return r
}

// events is the calendar of the fires to come.
func events(views []keeper.View, now time.Time) string {
	var all []calendar.Event
	for _, v := range views {
		for _, at := range v.Upcoming(perTask) {
			if len(all) == maxCalendar {
				break
			}
			all = append(all, calendar.Event{ID: fmt.Sprintf("%s-%d", v.ID, at.Unix()), Name: v.Name, Agent: v.Owner, Description: v.Description, At: at})
		}
	}
	return calendar.Write(all, now)
}
