package dispatch

import "github.com/millrace/millrace/internal/rollout"

// home is an engine, and the model whose prefix it holds: engines key their cache by the model's name.
type home struct {
	engine rollout.EngineID
	model  string
	games  int     // of a group: episodes that started there one after the other
	found  *engine // of that id, when it was looked for last
}

// home is the engine that holds the request's prefix, or nil: the one that served its game last, and for a game that
// has not begun, or whose engine is gone, the one that workers have agreed on, or else the one where its group's games
// start now.
func (s *Scheduler) home(q *entry) *engine {
	if q.run.affinitySlack(&s.cfg) < 0 {
		return nil
	}
	if at := s.games.recall(q.Episode, &q.game); at != nil {
		if at.value.model != q.Model {
			return nil // a new version starts with a cold cache wherever it goes
		}
		if e := s.engineAt(&at.value); e != nil {
			return e
		}
	}
	if q.Home != "" {
		return s.find(q.Home)
	}
	per := q.run.rules.GroupPerEngine
	if per <= 0 {
		return nil
	}
	if at := s.groups.find(q.Episode.GroupRef); at != nil && at.value.model == q.Model && at.value.games < per {
		return s.engineAt(&at.value)
	}
	return nil
}

// engineAt is the engine of a home; nil: it is gone.
func (s *Scheduler) engineAt(h *home) *engine {
	if h.found == nil || h.found.forgotten {
		h.found = s.find(h.engine)
	}
	return h.found
}

// setHome notes where a request went, for those that share its prefix.
func (s *Scheduler) setHome(q *entry, e *engine) {
	if q.run.affinitySlack(&s.cfg) < 0 {
		return
	}
	at := s.games.recall(q.Episode, &q.game)
	begins := at == nil
	s.games.put(q.Episode, &q.game, home{engine: e.id, model: q.Model, found: e})
	if q.run.rules.GroupPerEngine == 0 || !begins {
		return
	}
	group := s.groups.of(q.Episode.GroupRef)
	if group.engine != e.id || group.model != q.Model || group.games >= q.run.rules.GroupPerEngine {
		group = home{engine: e.id, model: q.Model, found: e}
	}
	group.games++
	s.groups.set(q.Episode.GroupRef, group)
}

// affinitySlack is the run's slack for games, or the default; negative: no affinity.
func (r *run) affinitySlack(cfg *Config) int {
	if r.rules.AffinitySlack != 0 {
		return r.rules.AffinitySlack
	}
	return cfg.AffinitySlack
}

// slack is how much more work than the least loaded engine a preferred one may have, in requests.
func (r *run) slack(cfg *Config) int {
	if slack := r.affinitySlack(cfg); slack >= 0 {
		return slack
	}
	return defaultSlack
}
