package requestsim

import (
	"cmp"
	"math"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// group is one group of games, from its launch until it is ready.
type group struct {
	seq      int
	version  int
	launched float64
	started  float64 // -1: not yet
	ready    float64 // -1: not yet
	long     float64 // how many times as many turns its games have
	games    []*game
	done     int
	gone     bool
	flat     bool
	taken    bool
}

// game plays turn after turn.
type game struct {
	group    *group
	no       int
	turns    int
	turn     int
	open     int
	requests []*request
	waits    bool // for a place
	over     bool
	begun    float64
	ended    float64

	slowest, slowExec, slowQueue float64
	model, queue, env            float64
	usage                        rollout.Usage
}

// launch begins as many groups as are wanted.
func (s *sim) launch() {
	for s.launched < s.wanted() {
		g := &group{seq: s.nextSeq, version: s.version, launched: s.now, started: -1, ready: -1, long: 1}
		s.nextSeq++
		s.launched++
		if s.w.SlowGroup > 0 && g.seq%s.w.Groups == s.w.Groups/2 {
			g.long = s.w.SlowGroup
		}
		g.flat = s.random("variance").Float64() < s.w.NoVariance
		s.groups = append(s.groups, g)
		s.after(s.w.Launch, func() { s.begin(g) })
	}
}

// wanted is how many groups may have been launched, less those that came to nothing.
func (s *sim) wanted() int {
	outstanding := cmp.Or(s.w.Instead.Depth, s.w.Depth)
	if s.w.OnStale != runspec.KeepStale {
		ahead := 0
		if s.claimed > s.completed {
			ahead = 1
		}
		outstanding = min(outstanding, max(0, cmp.Or(s.w.Instead.MaxStaleness, s.w.MaxStaleness)+1-ahead))
	}
	want := (s.claimed + outstanding) * s.w.Groups
	if s.w.MaxBytes > 0 {
		fit := int(s.w.MaxBytes / max(1, s.groupBytes()))
		want = min(want, s.claimed*s.w.Groups+max(fit, s.w.Groups))
	}
	return min(want, s.w.Steps*s.w.Groups)
}

// groupBytes is about what a group takes in the buffer.
func (s *sim) groupBytes() int64 {
	return int64(float64(s.w.Games*s.w.Agents) * s.w.Turns * (s.w.Prompt + s.w.Output))
}

func (s *sim) begin(g *group) {
	for i := range s.w.Games + s.w.Oversample {
		turns := s.w.Turns * g.long * s.spread("turns", s.w.TurnsCV)
		if i == 0 && s.w.SlowGame > 0 {
			turns *= s.w.SlowGame
		}
		m := &game{group: g, no: i, turns: max(1, int(math.Round(turns))), waits: true, begun: -1}
		g.games = append(g.games, m)
		s.forPlace = append(s.forPlace, m)
	}
	s.givePlaces()
}

// givePlaces lets games begin, oldest group first.
func (s *sim) givePlaces() {
	for len(s.forPlace) > 0 && (s.w.Places == 0 || s.playing < s.w.Places) {
		m := s.forPlace[0]
		s.forPlace = s.forPlace[1:]
		if m.over {
			continue
		}
		m.waits = false
		s.playing++
		s.ask(m)
	}
}

// ask sends a turn's requests.
func (s *sim) ask(m *game) {
	m.open, m.slowest, m.slowExec, m.slowQueue = s.w.Agents, -1, 0, 0
	m.requests = m.requests[:0]
	for range s.w.Agents {
		prompt := s.w.Prompt * s.spread("prompt", s.w.TokensCV)
		r := &request{game: m, age: m.group.launched, prompt: math.Ceil(prompt), cached: math.Floor(prompt * s.cached()),
			output: math.Ceil(s.w.Output * s.spread("output", s.w.TokensCV)), submitted: s.now}
		m.requests = append(m.requests, r)
		s.submit(r)
	}
	s.dispatch()
}

// answered hears of a completion.
func (s *sim) answered(r *request) {
	r.over = true
	if r.game == nil {
		s.othersAsk()
		s.dispatch()
		return
	}
	m := r.game
	exec, queue := s.now-r.sent, r.sent-r.submitted
	m.usage.Requests++
	m.usage.InputTokens += int64(r.prompt)
	m.usage.CachedTokens += int64(r.cached)
	m.usage.OutputTokens += int64(r.output)
	m.usage.ExecSec += exec
	m.usage.QueueSec += queue
	if exec+queue > m.slowest {
		m.slowest, m.slowExec, m.slowQueue = exec+queue, exec, queue
	}
	if m.open--; m.open == 0 {
		m.model += m.slowExec
		m.queue += m.slowQueue
		env := s.environment()
		m.env += env
		m.turn++
		s.after(env, func() { s.next(m) })
	}
	s.dispatch()
}

// environment is how long a turn takes in its environment, the wait for a processor included.
func (s *sim) environment() float64 {
	if s.w.Processors == 0 {
		return s.w.Env
	}
	for len(s.processors) < s.w.Processors {
		s.processors = append(s.processors, 0)
	}
	first := slices.Index(s.processors, slices.Min(s.processors))
	s.processors[first] = max(s.now, s.processors[first]) + s.w.Env
	return s.processors[first] - s.now
}

// cached is the share of a prompt that an engine's prefix cache holds.
func (s *sim) cached() float64 {
	if s.w.CacheGames == 0 || s.playing == 0 {
		return s.w.Shared
	}
	return s.w.Shared * min(1, s.w.CacheGames/float64(s.playing))
}

func (s *sim) next(m *game) {
	if m.over {
		return
	}
	if m.turn < m.turns {
		s.ask(m)
		return
	}
	m.over, m.ended = true, s.now
	g := m.group
	g.done++
	s.playing--
	if g.done == s.w.Games {
		for _, other := range g.games {
			s.stop(other)
		}
		s.after(s.w.Commit, func() { s.commit(g) })
	}
	s.givePlaces()
}

// stop ends a game that is not needed any more.
func (s *sim) stop(m *game) {
	if m.over {
		return
	}
	m.over = true
	if m.waits {
		return
	}
	s.playing--
	for _, r := range m.requests {
		if r.over {
			continue
		}
		r.over = true
		if r.engine != nil {
			r.engine.cancel(r)
		}
	}
}

// commit makes a group ready, unless nothing can be learnt of it.
func (s *sim) commit(g *group) {
	if g.flat && s.w.ZeroVariance == runspec.DropZeroVariance {
		s.drop(g, rollout.CodeZeroVariance)
		return
	}
	g.ready = s.now
	s.ready = append(s.ready, g)
	s.look()
}

// drop takes a group out and launches another in its place.
func (s *sim) drop(g *group, code rollout.Code) {
	g.gone = true
	s.launched--
	s.noteDrop(g, code)
	s.launch()
}

// spread is a random factor with a mean of 1.
func (s *sim) spread(stream string, cv float64) float64 {
	if cv <= 0 {
		return 1
	}
	sigma := math.Sqrt(math.Log(1 + cv*cv))
	return math.Exp(sigma*s.random(stream).NormFloat64() - sigma*sigma/2)
}

// byLaunch orders groups as they were launched.
func byLaunch(a, b *group) int { return a.seq - b.seq }

func (s *sim) sortReady() { slices.SortFunc(s.ready, byLaunch) }
