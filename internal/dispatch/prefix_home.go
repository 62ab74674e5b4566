package dispatch

import "github.com/millrace/millrace/internal/rollout"

// home is an engine, and the model whose prefix it holds: engines key their cache by the model's name.
type home struct {
	engine rollout.EngineID
	model  string
	games  int // of a group: episodes that started there one after the other
}

// home is the engine that holds the request's prefix, or "": the one that served its game last, and for a game that has
// not begun, the one where its group's games start now.
func (s *Scheduler) home(q *entry) rollout.EngineID {
	if q.run.affinitySlack(&s.cfg) < 0 {
		return ""
	}
	if at := s.games.of(q.Episode); at.engine != "" {
		if at.model != q.Model {
			return "" // a new version starts with a cold cache wherever it goes
		}
		return at.engine
	}
	per := q.run.rules.GroupPerEngine
	if at := s.groups.of(q.Episode.GroupRef); per > 0 && at.model == q.Model && at.games < per {
		return at.engine
	}
	return ""
}

// setHome notes where a request went, for those that share its prefix.
func (s *Scheduler) setHome(q *entry, e *engine) {
	if q.run.affinitySlack(&s.cfg) < 0 {
		return
	}
	begins := s.games.of(q.Episode).engine == ""
	s.games.set(q.Episode, home{engine: e.id, model: q.Model})
	if q.run.rules.GroupPerEngine == 0 || !begins {
		return
	}
	at := s.groups.of(q.Episode.GroupRef)
	if at.engine != e.id || at.model != q.Model || at.games >= q.run.rules.GroupPerEngine {
		at = home{engine: e.id, model: q.Model}
	}
	at.games++
	s.groups.set(q.Episode.GroupRef, at)
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
