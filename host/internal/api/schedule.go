package api

import (
	"encoding/json"
	"time"
)

// Schedule is what the scheduler has to do. The host passes it on as the scheduler
// gives it.
type Schedule struct {
	Now      time.Time       `json:"now"`
	TimeZone string          `json:"time_zone"`
	Total    int             `json:"total"` // tasks, of which the list may hold fewer
	Tasks    []ScheduledTask `json:"tasks"`
	Past     []PastTask      `json:"past,omitempty"`   // over lately, of one agent
	Faults   []string        `json:"faults,omitempty"` // tasks that could not be read
	Wakes    int64           `json:"wakes"`            // times the scheduler woke up
}

// ScheduledTask is one task of an agent.
type ScheduledTask struct {
	Agent       string          `json:"agent"`
	Name        string          `json:"name"`
	ID          string          `json:"id"`
	When        string          `json:"when"`
	TimeZone    string          `json:"time_zone"`
	Does        string          `json:"does"`
	Action      string          `json:"action"` // prompt | tool | webhook
	Session     string          `json:"session"`
	Description string          `json:"description"`
	Next        *time.Time      `json:"next,omitempty"`
	Overdue     bool            `json:"overdue"`
	Paused      string          `json:"paused,omitempty"`
	Running     int             `json:"running"`
	Fired       int             `json:"fired"`
	Missed      string          `json:"missed"`
	Overlap     string          `json:"overlap"`
	Created     time.Time       `json:"created"`
	LastRun     *ScheduledRun   `json:"last_run,omitempty"`
	Upcoming    []time.Time     `json:"upcoming,omitempty"`
	Runs        []ScheduledRun  `json:"runs,omitempty"`
	Arguments   json.RawMessage `json:"arguments,omitempty"`
}

// ScheduledRun is what became of one fire.
type ScheduledRun struct {
	ID      string     `json:"id"`
	Due     *time.Time `json:"due,omitempty"`
	Begun   *time.Time `json:"begun,omitempty"`
	Ended   time.Time  `json:"ended"`
	Outcome string     `json:"outcome"` // ok | failed | skipped | waiting
	Detail  string     `json:"detail,omitempty"`
	Again   bool       `json:"may_have_run_before,omitempty"`
	Manual  bool       `json:"manual,omitempty"`
	Count   int        `json:"count,omitempty"`
}

// PastTask is one that is over.
type PastTask struct {
	ID     string         `json:"id"`
	Name   string         `json:"name"`
	Why    string         `json:"why"` // finished | cancelled
	Runs   []ScheduledRun `json:"runs,omitempty"`
	Action string         `json:"action"`
}
