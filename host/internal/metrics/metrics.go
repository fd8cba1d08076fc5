// Package metrics counts calls. The names are those of the tools subsystem:
// bulkhead.tool.invoke.duration in milliseconds and bulkhead.tool.invocations,
// by tool and status.
package metrics

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
	m.registry.MustRegister(m.duration, m.invocations)
	return m
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
