// Package metrics counts calls. The names are those of the tools subsystem:
// bulkhead.tool.invoke.duration in milliseconds and bulkhead.tool.invocations,
// by tool and status; bulkhead.plugin.restarts, .state, .in_flight and .queue by
// plugin; and the connections of the HTTP address.
package metrics

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Meter holds the counters of one host.
type Meter struct {
	registry    *prometheus.Registry
	duration    *prometheus.HistogramVec
	invocations *prometheus.CounterVec
	seen        sync.Map // series → observed
}

// series is one row of both metrics; observed is where its values go, looked up
// once, since every call passes here.
type series struct{ tool, status string }

type observed struct {
	duration    prometheus.Observer
	invocations prometheus.Counter
}

// New makes the counters.
func New() *Meter {
	m := &Meter{
		registry: prometheus.NewRegistry(),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "bulkhead_tool_invoke_duration", Help: "Time of a tool call in milliseconds.",
			Buckets: []float64{1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 300000, 900000},
		}, []string{"tool_name", "status"}),
		invocations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "bulkhead_tool_invocations", Help: "Tool calls.",
		}, []string{"tool_name", "status"}),
	}
	m.registry.MustRegister(m.duration, m.invocations, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Plugin is a plugin as it stands.
type Plugin struct {
	Name, State                string
	Restarts, InFlight, Queued int
}

// Door is the connections of the HTTP address as they stand.
type Door struct {
	Open, Idle, Limit int
	Dropped, Refused  uint64
}

// Watch adds what stands at the time of each reading.
func (m *Meter) Watch(plugins func() []Plugin, door func() Door) {
	m.registry.MustRegister(state{plugins, door})
}

type state struct {
	plugins func() []Plugin
	door    func() Door
}

var (
	restarts    = describe("plugin_restarts", "Unplanned restarts of a plugin.", "plugin")
	pluginState = describe("plugin_state", "1 for the state a plugin is in.", "plugin", "state")
	inFlight    = describe("plugin_in_flight", "Calls a plugin has in hand.", "plugin")
	queue       = describe("plugin_queue", "Calls that wait for a slot of a plugin.", "plugin")
	connections = describe("http_connections", "Open connections of the HTTP address.", "state")
	limit       = describe("http_connections_limit", "Connections the HTTP address admits.")
	dropped     = describe("http_connections_dropped", "Idle connections that made room for new ones.")
	refused     = describe("http_connections_refused", "Connections turned away since all were busy.")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("bulkhead_"+name, help, labels, nil)
}

// Describe names nothing ahead: what there is changes with the plugins.
func (state) Describe(chan<- *prometheus.Desc) {}

// Collect reads how it stands.
func (s state) Collect(out chan<- prometheus.Metric) {
	put := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	for _, p := range s.plugins() {
		put(restarts, prometheus.CounterValue, float64(p.Restarts), p.Name)
		put(pluginState, prometheus.GaugeValue, 1, p.Name, p.State)
		put(inFlight, prometheus.GaugeValue, float64(p.InFlight), p.Name)
		put(queue, prometheus.GaugeValue, float64(p.Queued), p.Name)
	}
	d := s.door()
	put(connections, prometheus.GaugeValue, float64(d.Open-d.Idle), "busy")
	put(connections, prometheus.GaugeValue, float64(d.Idle), "idle")
	put(limit, prometheus.GaugeValue, float64(d.Limit))
	put(dropped, prometheus.CounterValue, float64(d.Dropped))
	put(refused, prometheus.CounterValue, float64(d.Refused))
}

// Observe records one call. status is ok or the error's code.
func (m *Meter) Observe(tool, status string, took time.Duration) {
	key := series{tool, status}
	o, ok := m.seen.Load(key)
	if !ok {
		o, _ = m.seen.LoadOrStore(key, observed{m.duration.WithLabelValues(tool, status), m.invocations.WithLabelValues(tool, status)})
	}
	o.(observed).duration.Observe(float64(took.Microseconds()) / 1000)
	o.(observed).invocations.Inc()
}

// Handler serves the counters in the Prometheus text format.
func (m *Meter) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
