package httpapi

import (
	"net/http"
	"strings"

	"github.com/bulkhead-dev/bulkhead/host/internal/api"
	"github.com/bulkhead-dev/bulkhead/host/internal/fault"
	"github.com/bulkhead-dev/bulkhead/host/internal/policy"
	"github.com/bulkhead-dev/bulkhead/host/internal/question"
)

// who is who calls: an agent, or on the control socket the operator, acting as the
// agent it names.
type who struct {
	agent    *policy.Agent
	operator bool
	hand     *hand // the request itself; nil where anyone is served
}

// all says whether the caller sees what concerns others.
func (w who) all() bool { return w.operator || w.agent.Approver }

// by is the caller as one that answers questions.
func (w who) by() question.By {
	if w.operator {
		return question.By{Name: policy.Operator, Approver: true, Person: true}
	}
	return question.By{Name: w.agent.Name, Approver: w.agent.Approver}
}

func (w who) door() string {
	if w.operator {
		return "cli"
	}
	return "http"
}

// named is the agent a request on the control socket names, else the default one.
func (a *API) named(r *http.Request) (*policy.Agent, error) {
	name := r.Header.Get(api.HeaderAgent)
	if name == "" {
		name = policy.DefaultAgent
	}
	return a.Policy.Agent(name)
}

// authenticate finds the agent of a request on TCP. What is wrong with a token is
// not told: every wrong one gets the same answer.
func (a *API) authenticate(r *http.Request) (*policy.Agent, error) {
	values := r.Header.Values("Authorization")
	switch {
	case len(values) > 1:
		return nil, fault.New(fault.UnknownAgent, "one Authorization header, not %d", len(values))
	case len(values) == 0 && a.Loopback:
		return a.Policy.Agent(policy.DefaultAgent)
	case len(values) == 0:
		return nil, fault.New(fault.UnknownAgent, "this address needs a token: Authorization: Bearer TOKEN")
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return nil, fault.New(fault.UnknownAgent, "the Authorization header must be Bearer TOKEN")
	}
	return a.Policy.ByToken(strings.TrimSpace(token))
}
