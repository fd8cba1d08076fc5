package session

// Bounds of the turns that are held in memory, in bytes: those of one agent's
// sessions together, and all.
const (
	maxAgentTurns = 32 << 20
	maxAllTurns   = 128 << 20
)

// weights is what the turns of the open sessions take.
type weights struct {
	agent map[string]int
	all   int
}

func (w *weights) add(agent string, n int) {
	w.all += n
	if w.agent[agent] += n; w.agent[agent] == 0 {
		delete(w.agent, agent)
	}
}

// weigh counts what a session holds. Beyond the bounds the longest unused of its
// agent's sessions lose their turns; beyond those of the host, the sessions of
// whoever holds most.
func (ss *Sessions) weigh(s *Session) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.open[s.ID] != s {
		return // it goes with whoever still has it in hand
	}
	ss.reweigh(s)
	for ss.turns.agent[s.Agent] > maxAgentTurns && ss.shed(s.Agent, s) {
	}
	for ss.turns.all > maxAllTurns {
		heaviest := ""
		for agent, n := range ss.turns.agent {
			if heaviest == "" || n > ss.turns.agent[heaviest] {
				heaviest = agent
			}
		}
		if !ss.shed(heaviest, s) {
			return
		}
	}
}

func (ss *Sessions) reweigh(s *Session) {
	n := s.size()
	ss.turns.add(s.Agent, n-s.weight)
	s.weight = n
}

// shed drops the turns of an agent's longest unused session that has some, but for
// the one that spoke just now. It reports false when there is none.
func (ss *Sessions) shed(agent string, but *Session) bool {
	var oldest *Session
	for _, s := range ss.open {
		if s.Agent == agent && s != but && s.weight > 0 && (oldest == nil || s.used.Load() < oldest.used.Load()) {
			oldest = s
		}
	}
	if oldest == nil {
		return false
	}
	oldest.mu.Lock()
	oldest.turns = nil
	oldest.mu.Unlock()
	ss.reweigh(oldest)
	return true
}
