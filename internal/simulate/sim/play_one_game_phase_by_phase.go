package sim

import (
	"slices"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/simulate/sim/serving"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
	"github.com/millrace/millrace/internal/simulate/sim/workload"
)

// game is one game being played: what package episode and the attempts at it do. Its turns of a phase are asked for all
// at once; when all are answered and the environment has had its time, the next phase begins.
type game struct {
	*pipeline
	group *group
	of    workload.Game
	timer *virtualtime.Timer
	state gameState

	model    string
	version  rollout.PolicyVersion
	ids      []dispatch.ID // of the phase's requests, by turn
	open     []bool        // which of them are not answered
	missing  int           // how many
	attempts int           // that failed and are held against the game
	rejected rollout.Code  // why the latest failed

	slowest      time.Duration // of the phase: execution and wait of the request that took longest
	slowExec     time.Duration
	slowQueue    time.Duration
	longest      time.Duration // execution of any
	startedKnown bool
	outcome
}

// outcome is what a game has come to.
type outcome struct {
	sample         int
	started, ended time.Duration
	modelTime      time.Duration // executions of its phases' slowest requests
	queueTime      time.Duration // and their waits
	env            time.Duration
	phases         int // finished
	turns          int
	agents         int
	oldest         rollout.PolicyVersion // that made any turn
	usage          rollout.Usage
}

type gameState uint8

const (
	gameWaits  gameState = iota // for a worker's slot
	gameRests                   // in the environment, before a phase
	gameAsks                    // engines
	gameFails                   // one of the requests was rejected
	gamePauses                  // after a failed attempt
	gameOver                    // cancelled while it waited for a slot
)

// Attempts, as package activities makes them: how many may fail, and how long a game rests after one.
const (
	maxAttempts   = 20
	firstPause    = 500 * time.Millisecond
	lastPause     = 30 * time.Second
	restUnserved  = 2 * time.Second
	pauseDoubling = 10
)

func (p *pipeline) newGame(g *group, sample int) *game {
	var a *game
	if n := len(p.spare); n > 0 {
		a, p.spare = p.spare[n-1], p.spare[:n-1]
		*a = game{pipeline: p, timer: a.timer, ids: a.ids[:0], open: a.open[:0]}
	} else {
		a = &game{pipeline: p}
		a.timer = p.agenda.Timer(classGames, a, 0)
	}
	a.group, a.sample = g, sample
	a.model, a.version, a.oldest = g.model, g.version, g.version
	return a
}

// begin is called when the game has a slot.
func (a *game) begin() {
	ref := rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: a.setup.Name, Seq: a.group.seq}, Sample: a.sample}
	a.of = a.games.Game(ref)
	if played, ok := a.games.(interface{ Err() error }); ok && len(a.of.Phases) == 0 && played.Err() != nil {
		a.fail(played.Err())
	}
	a.agents = a.of.Agents
	a.state = gameRests
	a.timer.Set(a.now() + a.before(0))
}

// before is the environment's time before a phase's requests.
func (a *game) before(phase int) time.Duration {
	if phase >= len(a.of.Phases) {
		return 0
	}
	return a.of.Phases[phase].Env / 2
}

// Happen is the beginning of the next phase, or the end of the game.
func (a *game) Happen(now time.Duration, _ uint64) {
	switch {
	case a.state == gamePauses:
		a.ask()
	case a.state == gameFails:
		a.attemptFails(a.rejected)
	case a.state != gameRests:
	case a.phases > 0 && a.spent() > a.setup.Timeouts.Episode.Std() && a.setup.Timeouts.Episode > 0:
		a.fails(rollout.CodeEpisodeDeadline)
	case a.phases < len(a.of.Phases):
		a.beginPhase()
	case a.of.Fails != "":
		a.fails(a.of.Fails)
	default:
		a.finishes(now)
	}
}

// spent is the time that counts against the episode's.
func (a *game) spent() time.Duration { return a.modelTime + a.env }

func (a *game) beginPhase() {
	phase := &a.of.Phases[a.phases]
	if a.setup.PolicyRefresh == runspec.RefreshTurn && a.newest > a.version {
		a.version = a.newest
		a.model = a.modelOf(a.version)
	}
	a.ids, a.open = a.ids[:0], a.open[:0]
	a.missing = 0
	for i := range phase.Turns {
		asked := !a.elsewhere(&phase.Turns[i]) // how long others take is not known: they answer at once
		a.ids, a.open = append(a.ids, 0), append(a.open, asked)
		if asked {
			a.missing++
		}
	}
	a.slowest, a.slowExec, a.slowQueue, a.longest = -1, 0, 0, 0
	a.ask()
}

// ask sends the phase's requests that are not answered.
func (a *game) ask() {
	a.state = gameAsks
	turns := a.of.Phases[a.phases].Turns
	for i := range turns {
		if !a.open[i] {
			continue
		}
		t := &turns[i]
		a.ids[i] = 0
		id := a.fleet.Submit(serving.Request{
			Episode: rollout.EpisodeRef{
				GroupRef: rollout.GroupRef{Run: a.setup.Name, Seq: a.group.seq}, Sample: a.sample,
			},
			Model: a.modelOfTurn(t), Prompt: t.Prompt, Output: t.Output, ToldPrompt: t.Prompt, Shared: t.Shared,
			Timeout: a.setup.Timeouts.Completion.Std(), Client: a, Tag: uint64(i),
		})
		if a.state != gameAsks { // it was rejected at once
			return
		}
		a.ids[i] = id
	}
	if a.missing == 0 {
		a.answered()
	}
}

// elsewhere reports whether a turn is of a policy that no engine serves.
func (a *game) elsewhere(t *workload.Turn) bool {
	return slices.ContainsFunc(a.setup.Policies, func(p runspec.FixedPolicy) bool {
		return t.Policy != "" && p.Name == t.Policy && p.URL != ""
	})
}

// modelOfTurn is what a turn is asked of: the game's version of the learner, or a fixed policy.
func (a *game) modelOfTurn(t *workload.Turn) string {
	if t.Policy == "" {
		return a.model
	}
	for _, fixed := range a.setup.Policies {
		if fixed.Name == t.Policy {
			return fixed.ServedAs(a.setup.Name, a.setup.Spec.Model)
		}
	}
	return a.model
}

// Answered hears how a request ended.
func (a *game) Answered(now time.Duration, tag uint64, answer serving.Answer) {
	if answer.Rejected != "" {
		a.ids[tag] = 0
		if a.state == gameAsks {
			a.state, a.rejected = gameFails, answer.Rejected
			a.timer.Set(now)
		}
		return
	}
	a.moved()
	exec, queue := answer.Ended-answer.Sent, answer.Sent-answer.Submitted
	a.answers++
	a.usage.Requests++
	a.usage.InputTokens += int64(answer.Prompt)
	a.usage.OutputTokens += int64(answer.Output)
	a.usage.CachedTokens += int64(answer.Cached)
	a.usage.ExecSec += exec.Seconds()
	a.usage.QueueSec += queue.Seconds()
	if exec+queue > a.slowest {
		a.slowest, a.slowExec, a.slowQueue = exec+queue, exec, queue
	}
	a.longest = max(a.longest, exec)
	if a.turns == 0 || a.version < a.oldest {
		a.oldest = a.version
	}
	a.turns++
	a.open[tag], a.ids[tag] = false, 0
	if a.missing--; a.missing == 0 {
		a.answered()
	}
}

// answered ends a phase: its answers are applied, and the environment gets ready for the next one.
func (a *game) answered() {
	now := a.now()
	phase := &a.of.Phases[a.phases]
	if !a.startedKnown { // as package episode reckons it: from the end of the first phase
		a.started, a.startedKnown = now-a.longest, true
	}
	limit := a.setup.Timeouts.PhaseLimit().Std()
	a.modelTime += a.slowExec
	a.queueTime += a.slowQueue
	a.env += phase.Env
	if limit > 0 && a.longest+phase.Env > limit {
		a.fails(rollout.CodePhaseDeadline)
		return
	}
	a.phases++
	a.state = gameRests
	after := phase.Env - phase.Env/2
	a.timer.Set(now + after + a.setup.Overheads.Phase.Std() + a.before(a.phases))
}

// attemptFails ends an attempt whose request was rejected. Another one goes on with the phase after a pause.
func (a *game) attemptFails(code rollout.Code) {
	a.withdraw()
	pause := restUnserved
	if code != rollout.CodeNoEngine {
		a.attempts++
		pause = min(firstPause<<min(a.attempts-1, pauseDoubling), lastPause)
	}
	if a.attempts >= maxAttempts || code == rollout.CodeRefused || code == rollout.CodeBadRequest {
		a.fails(code)
		return
	}
	a.state = gamePauses
	a.timer.Set(a.now() + pause)
}

// withdraw cancels the phase's requests.
func (a *game) withdraw() {
	for i, open := range a.open {
		if open && a.ids[i] != 0 {
			a.fleet.Cancel(a.ids[i])
			a.ids[i] = 0
		}
	}
}

func (a *game) finishes(now time.Duration) {
	a.ended = now
	if !a.startedKnown {
		a.started = now
	}
	a.finished++
	a.leaveSlot()
	a.group.finish(a)
	a.recycle()
}

func (a *game) fails(code rollout.Code) {
	a.leaveSlot()
	a.group.lose(a, code)
	a.recycle()
}

// cancel ends a game that is not needed any more.
func (a *game) cancel() {
	if a.state == gameWaits {
		a.state = gameOver // its place among those that wait is given up when its turn comes
		return
	}
	a.withdraw()
	a.leaveSlot()
	a.recycle()
}

func (a *game) leaveSlot() {
	a.timer.Stop()
	a.slots.release()
}

// recycle lets the game's memory be used again.
func (a *game) recycle() {
	a.state, a.group, a.of = gameOver, nil, workload.Game{}
	a.spare = append(a.spare, a)
}
