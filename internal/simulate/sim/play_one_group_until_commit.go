package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/run/runmachine"
	"github.com/millrace/millrace/internal/simulate/sim/buffermodel"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
)

// group is one group in play: what the group workflow does.
type group struct {
	*pipeline
	seq      rollout.GroupSeq
	version  rollout.PolicyVersion
	model    string
	launched time.Duration
	timer    *virtualtime.Timer
	state    groupState
	inFlight bool // a request of it was dispatched

	playing []*game
	done    []outcome // finished, in the order in which they did
	failure rollout.Code
	late    bool // the grace of those still running is over
	timed   bool // it runs
	failed  int
}

type groupState uint8

const (
	groupStarts groupState = iota
	groupPlays
	groupCommits
	groupOver
)

// startGroup launches a group, whose games can begin after some time.
func (p *pipeline) startGroup(of runmachine.Group, takes time.Duration) {
	g := &group{pipeline: p, seq: of.Seq, version: of.Version, model: p.modelOf(of.Version), launched: p.now()}
	g.timer = p.agenda.Timer(classGames, g, 0)
	p.groups[g.seq] = g
	p.buffer.Queue(g.seq, g.version)
	g.timer.Set(p.now() + takes)
}

// modelOf is the name under which engines serve a version.
func (p *pipeline) modelOf(v rollout.PolicyVersion) string {
	return p.setup.Spec.ModelOf(v)
}

// Happen is the beginning of a group's games, the end of its grace, or its commit.
func (g *group) Happen(time.Duration, uint64) {
	switch g.state {
	case groupStarts:
		g.state = groupPlays
		n := max(1, g.setup.Group.Samples+g.setup.Group.Oversample)
		g.playing = make([]*game, 0, n)
		for sample := range n {
			game := g.newGame(g, sample)
			g.playing = append(g.playing, game)
		}
		for _, game := range slices.Clone(g.playing) {
			g.slots.wait(game)
		}
	case groupPlays:
		g.late = true
		g.judge()
	case groupCommits:
		g.commit()
	case groupOver:
	}
}

// finish takes the result of one of its games.
func (g *group) finish(of *game) {
	g.leave(of)
	g.done = append(g.done, of.outcome)
	g.judge()
}

// lose notes that one of its games came to nothing.
func (g *group) lose(of *game, code rollout.Code) {
	g.leave(of)
	g.failure = code
	g.failed++
	g.judge()
}

func (g *group) leave(of *game) {
	g.playing = slices.DeleteFunc(g.playing, func(other *game) bool { return other == of })
}

// judge ends the group's games when they are enough, or too few can still succeed.
func (g *group) judge() {
	spec := &g.setup.Group
	least := max(spec.MinSamples, 1)
	finished := len(g.done)
	enough := finished >= spec.Samples || len(g.playing) == 0 || g.late && finished >= least
	switch {
	case finished+len(g.playing) < least:
		g.stopGames()
		g.discard(g.failure)
	case enough:
		g.stopGames()
		g.state = groupCommits
		g.timer.Set(g.now() + g.setup.Overheads.Commit.Std())
	case !g.timed && spec.Grace > 0 && finished >= least:
		g.timed = true
		g.timer.Set(g.now() + spec.Grace.Std())
	}
}

func (g *group) stopGames() {
	for _, game := range g.playing {
		game.cancel()
	}
	g.playing = g.playing[:0]
}

// cancel ends a group that the run does not want any more.
func (g *group) cancel() {
	if g.state == groupOver {
		return
	}
	g.stopGames()
	g.discard(rollout.CodeCancelled)
}

// discard takes the group out of the buffer, where it is not out yet.
func (g *group) discard(code rollout.Code) {
	g.buffer.Discard(g.seq, code, g.length())
	g.end(code, false)
}

// length is how many phases its games have come to in the mean.
func (g *group) length() int {
	if g == nil {
		return 0
	}
	games, phases := 0, 0
	for i := range g.done {
		games, phases = games+1, phases+g.done[i].phases
	}
	for _, game := range g.playing {
		if game.phases > 0 {
			games, phases = games+1, phases+game.phases
		}
	}
	if games == 0 {
		return 0
	}
	return (2*phases + games) / (2 * games)
}

// commit compares the rewards of the finished games and makes the group ready.
func (g *group) commit() {
	slices.SortFunc(g.done, func(a, b outcome) int { return cmp.Compare(a.sample, b.sample) })
	ref := rollout.GroupRef{Run: g.setup.Name, Seq: g.seq}
	flat := g.games.ZeroVariance(ref)
	if g.setup.Group.ZeroVariance.Drops(len(g.done), flat) {
		g.buffer.Discard(g.seq, rollout.CodeZeroVariance, g.length())
		g.end(rollout.CodeZeroVariance, true)
		return
	}
	ready := g.ready(flat)
	code, _ := g.buffer.Commit(ready)
	if g.options.Scaler != nil && code == "" {
		g.options.Scaler.GroupReady(ready.View)
	}
	g.end(code, code == "" && flat && len(g.done) > 1)
}

// ready is the group as the buffer keeps it.
func (g *group) ready(flat bool) buffermodel.Ready {
	n := len(g.done)
	seconds := make([]float64, 4*n)
	v := &steprecord.GroupView{
		Seq: g.seq, MinVersion: g.version, Phases: make([]int, n), ZeroVariance: flat,
		EpisodeSec: seconds[:n:n], ModelSec: seconds[n : 2*n : 2*n], QueueSec: seconds[2*n : 3*n : 3*n],
		EnvSec: seconds[3*n:],
	}
	v.Times = rollout.GroupTimes{LaunchedAt: g.at(g.launched), ReadyAt: g.at(g.now())}
	r := buffermodel.Ready{Seq: g.seq, ZeroVariance: flat, View: v}
	started := time.Duration(-1)
	phases, asked := 0, false
	for i := range g.done {
		e := &g.done[i]
		v.Usage = v.Usage.Add(e.usage)
		v.EpisodeSec[i] = (e.ended - e.started).Seconds()
		v.ModelSec[i], v.QueueSec[i] = e.modelTime.Seconds(), e.queueTime.Seconds()
		v.EnvSec[i], v.Phases[i] = e.env.Seconds(), e.phases
		phases += e.phases
		r.Trajectories += e.agents
		if started < 0 || e.started < started {
			started = e.started
		}
		if e.turns > 0 && (!asked || e.oldest < v.MinVersion) {
			v.MinVersion, asked = e.oldest, true
		}
	}
	v.Times.StartedAt = g.at(max(started, 0))
	r.Min = v.MinVersion
	r.Length = (phases + n/2) / n
	r.Bytes = int64(bytesPerToken * float64(v.Usage.InputTokens+v.Usage.OutputTokens))
	return r
}

// bytesPerToken is what a token of a prompt or an answer takes in the buffer, packed: measured on the demo's games,
// whose prompts repeat themselves.
const bytesPerToken = 0.27

// end tells the run what became of the group.
func (g *group) end(code rollout.Code, zeroVariance bool) {
	g.state = groupOver
	g.timer.Stop()
	delete(g.groups, g.seq)
	g.countBarren(code)
	g.run.tell(runmachine.GroupEnded{Seq: g.seq, Code: code, ZeroVariance: zeroVariance})
	g.run.tell(runmachine.GroupClosed{Seq: g.seq})
	g.trainer.look()
}

// maxBarren is how many groups in a row may come to nothing, beside many times as many as the run has in play.
const maxBarren = 300

// countBarren counts the groups that came to nothing since one did not: a run of which all do would never end.
func (p *pipeline) countBarren(code rollout.Code) {
	if code == "" {
		p.barren = 0
		p.moved()
		return
	}
	if p.barren++; p.barren > maxBarren+10*p.setup.Buffer.Outstanding() {
		p.fail(p.stuck(fmt.Sprintf("%d groups in a row came to nothing, the last one for %s", p.barren, code)))
	}
}
