package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	pluginv1 "github.com/bulkhead-dev/bulkhead/sdk/proto/bulkhead/plugin/v1"
)

// The defaults of a host that was told nothing.
const (
	DefaultAddress     = "127.0.0.1:7411"
	DefaultCalls       = 32
	DefaultQueue       = 128
	DefaultCallTimeout = time.Minute
)

func (c *Config) defaults(e *evaluator) {
	c.Host = Host{
		DataDir: e.absolute("data"), PluginDir: e.absolute("bin/plugins"), SharedDir: e.absolute("data/shared"),
		Autoload: true, LogLevel: "info", WorkingMemory: 256 << 20,
	}
	c.HTTP = &HTTP{Address: DefaultAddress}
	c.Results = Results{Threshold: 64000}
	c.Session = Session{ListBudget: 120, ActivatedTools: 40, Idle: 12 * time.Hour}
	c.Policy = Policy{ApprovalReplyAfter: 45 * time.Second}
}

// fill puts a node's own attributes into a struct with json tags. Quantities
// arrive as nanoseconds and bytes.
func (e *evaluator) fill(n *node, into any) {
	object := map[string]any{}
	for _, a := range n.schema.GetAttributes() {
		v, ok := n.attrs[a.Name]
		if !ok || isNull(v) {
			continue
		}
		if a.Quantity != pluginv1.Quantity_QUANTITY_UNSPECIFIED {
			raw, _ := v.Unmark()
			amount, err := ParseSize(raw.AsString())
			if a.Quantity == pluginv1.Quantity_QUANTITY_DURATION {
				var d time.Duration
				d, err = ParseDuration(raw.AsString())
				amount = int64(d)
			}
			if err != nil {
				continue // reported when it was evaluated
			}
			v = cty.NumberIntVal(amount)
		}
		if v.Type() == cty.Number && !wholeNumber(v) {
			e.add(fault.ConfigValue, e.at(n, a.Name), fmt.Sprintf("%q is not a whole number that fits", a.Name), "write a whole number from 0 up")
			continue
		}
		object[a.Name] = v
	}
	var b bytes.Buffer
	encode(&b, object)
	if err := json.Unmarshal(b.Bytes(), into); err != nil {
		at, name := e.at(n, ""), ""
		var te *json.UnmarshalTypeError
		if errors.As(err, &te) {
			at, name = e.at(n, te.Field), te.Field
		}
		e.add(fault.ConfigValue, at, fmt.Sprintf("%q is out of range", name), "")
	}
}

func wholeNumber(v cty.Value) bool {
	raw, _ := v.Unmark()
	n, err := strconv.ParseInt(raw.AsBigFloat().Text('f', -1), 10, 64)
	return err == nil && n >= 0
}

// at is where an attribute of the node stands, or the node itself.
func (e *evaluator) at(n *node, attribute string) hcl.Range {
	return Source{n.block}.At(attribute)
}

func label(n *node) string {
	if len(n.labels) == 0 {
		return ""
	}
	return n.labels[0]
}

func (e *evaluator) decodeHost(c *Config, top *node) {
	for _, n := range top.blocks["host"] {
		c.Host.Source = Source{n.block}
		e.fill(n, &c.Host)
		e.checkHost(&c.Host)
	}
}

func (e *evaluator) decode(c *Config, top *node) {
	for i, n := range top.blocks["frontend"] {
		h := &HTTP{Source: Source{n.block}, Address: DefaultAddress}
		e.fill(n, h)
		e.checkFrontend(n, i, h)
		c.HTTP = h
	}
	for _, n := range top.blocks["results"] {
		c.Results.Source = Source{n.block}
		e.fill(n, &c.Results)
		e.positive(c.Results.Source, "threshold", int64(c.Results.Threshold))
		for _, m := range n.blocks["model"] {
			rm := ResultsModel{Source: Source{m.block}, Glob: label(m)}
			e.fill(m, &rm)
			e.positive(rm.Source, "threshold", int64(rm.Threshold))
			c.Results.Models = append(c.Results.Models, rm)
		}
	}
	for _, n := range top.blocks["session"] {
		c.Session.Source = Source{n.block}
		e.fill(n, &c.Session)
		e.positive(c.Session.Source, "list_budget", int64(c.Session.ListBudget))
		e.positive(c.Session.Source, "activated_tools", int64(c.Session.ActivatedTools))
		e.positive(c.Session.Source, "idle", int64(c.Session.Idle))
	}
	for _, n := range top.blocks["plugin"] {
		c.Plugins = append(c.Plugins, e.plugin(n))
	}
	for _, n := range top.blocks["agent"] {
		a := &Agent{Source: Source{n.block}, Name: label(n), Profile: "main", ModelTier: "balanced"}
		e.fill(n, a)
		c.Agents = append(c.Agents, a)
	}
	for _, n := range top.blocks["profile"] {
		p := &Profile{Source: Source{n.block}, Name: label(n)}
		e.fill(n, p)
		c.Profiles = append(c.Profiles, p)
	}
	for _, n := range top.blocks["team"] {
		t := &Team{Source: Source{n.block}, Name: label(n), Mode: "hierarchical", ToolRequests: "refuse"}
		e.fill(n, t)
		c.Teams = append(c.Teams, t)
	}
	for _, n := range top.blocks["policy"] {
		c.Policy.Source = Source{n.block}
		e.fill(n, &c.Policy)
		for _, m := range n.blocks["tier"] {
			t := &Tier{Source: Source{m.block}, Name: label(m)}
			e.fill(m, t)
			c.Policy.Tiers = append(c.Policy.Tiers, t)
		}
		for _, m := range n.blocks["rule"] {
			r := &Rule{Source: Source{m.block}, Name: label(m)}
			e.fill(m, r)
			c.Policy.Rules = append(c.Policy.Rules, r)
		}
	}
	e.check(c)
}

func (e *evaluator) plugin(n *node) *Plugin {
	p := &Plugin{
		Source: Source{n.block}, Name: label(n), Enabled: true,
		Limits:        Limits{Calls: DefaultCalls, Queue: DefaultQueue, CallTimeout: DefaultCallTimeout},
		RestartBudget: RestartBudget{Exits: 5, Window: 10 * time.Minute},
	}
	e.fill(n, p)
	for _, m := range n.blocks["limits"] {
		p.Limits.Source = Source{m.block}
		e.fill(m, &p.Limits)
	}
	for _, m := range n.blocks["sandbox"] {
		p.Sandbox.Source = Source{m.block}
		e.fill(m, &p.Sandbox)
	}
	for _, m := range n.blocks["restart_budget"] {
		p.RestartBudget.Source = Source{m.block}
		e.fill(m, &p.RestartBudget)
	}
	for _, m := range n.blocks["tools"] {
		t := &PluginTool{Source: Source{m.block}, Name: label(m)}
		e.fill(m, t)
		p.Tools = append(p.Tools, t)
	}
	for _, m := range n.blocks["config"] {
		p.config = m.block
	}
	return p
}
