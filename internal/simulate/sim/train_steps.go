package sim

import (
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/run/runmachine"
	"github.com/millrace/millrace/internal/simulate/sim/buffermodel"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
)

// trainer does what the demo trainer does: step after step it claims the batch, spends the time of each phase,
// publishes a version and records the step.
type trainer struct {
	*pipeline
	random *virtualtime.Random
	timer  *virtualtime.Timer
	state  trainerState
	step   rollout.Step

	asked, last time.Duration // when the step began, and its latest phase ended
	phase       int           // under way: a place in order
	lengths     map[steprecord.Phase]float64
	batch       *buffermodel.Batch
	fleetView   steprecord.FleetView
	engineViews []enginestate.EngineView

	version    rollout.PolicyVersion // newest published
	publishing bool                  // is not answered
	tries      int                   // publications asked for
	records    []steprecord.StepRecord
}

type trainerState uint8

const (
	trainerAsks      trainerState = iota // for the batch
	trainerReceives                      // it
	trainerWorks                         // in a phase
	trainerPublishes                     // the phase's own time is over
	trainerHoldsBack                     // until the version before is published
	trainerDone
)

// order is the phases after the wait.
var order = []steprecord.Phase{
	steprecord.PhaseLoad, steprecord.PhaseRefLogprobs, steprecord.PhaseTrain, steprecord.PhasePublish,
	steprecord.PhaseCheckpoint,
}

// publishAgain is the event that a version is published again, which did not serve for want of engines.
const (
	publishAgain      uint64 = 1
	publishAgainAfter        = time.Second
)

func (t *trainer) begin(p *pipeline) {
	t.pipeline = p
	t.random = virtualtime.NewRandom(uint64(p.setup.Seed), "trainer")
	t.timer = p.agenda.Timer(classTrainer, t, 0)
}

// ask begins a step.
func (t *trainer) ask(now time.Duration) {
	t.state, t.asked, t.last = trainerAsks, now, now
	t.lengths = make(map[steprecord.Phase]float64, len(order)+1)
	t.timer.Set(now + t.slowClaim)
}

// look has a trainer that waits for its batch look for it, as soon as it can hear that something has changed.
func (t *trainer) look() {
	if t.state != trainerAsks {
		return
	}
	if _, pending := t.timer.Pending(); !pending {
		t.timer.Set(t.now() + t.setup.Overheads.Claim.Std())
	}
}

// Happen is a look for the batch, the end of a phase, or another try to publish.
func (t *trainer) Happen(now time.Duration, arg uint64) {
	switch {
	case arg == publishAgain:
		t.publish()
	case t.state == trainerAsks:
		t.claim(now)
	case t.state == trainerReceives:
		t.received(now)
	case t.state == trainerHoldsBack:
		t.beginPhase(now)
	case t.state == trainerWorks:
		if order[t.phase] == steprecord.PhasePublish && t.publishing && !t.setup.Trainer.PublishInBackground {
			t.state = trainerPublishes
			return
		}
		t.endPhase(now)
	case t.state == trainerPublishes:
		t.endPhase(now)
	}
}

func (t *trainer) claim(now time.Duration) {
	batch, err := t.buffer.Claim(t.step, t.at(now))
	switch {
	case errors.Is(err, buffermodel.ErrNotReady):
		return
	case errors.Is(err, buffermodel.ErrRunOver):
		t.state = trainerDone
		return
	case err != nil:
		t.fail(err)
		return
	}
	t.moved()
	if t.options.Scaler != nil {
		t.options.Scaler.Claimed(now - t.asked)
	}
	t.batch = batch
	t.fleetView, t.engineViews = t.viewFleet(now), t.fleet.EngineViews()
	for _, g := range batch.Groups {
		t.trained += g.View.Usage.InputTokens + g.View.Usage.OutputTokens
	}
	t.run.tell(runmachine.BufferChanged{})
	t.stepClaimed(t.step)
	t.doChanges(t.step)
	if t.slowAnswer > 0 {
		t.state = trainerReceives
		t.timer.Set(now + t.slowAnswer)
		return
	}
	t.received(now)
}

// received begins the phases of a batch that the trainer has.
func (t *trainer) received(now time.Duration) {
	t.endOf(steprecord.PhaseWait, now)
	t.phase = 0
	t.beginPhase(now)
}

// endOf says that a phase has ended.
func (t *trainer) endOf(phase steprecord.Phase, now time.Duration) {
	t.lengths[phase] = (now - t.last).Seconds()
	t.last = now
}

// beginPhase begins the phase whose turn it is.
func (t *trainer) beginPhase(now time.Duration) {
	if t.phase == len(order) {
		t.record(now)
		return
	}
	if order[t.phase] == steprecord.PhasePublish {
		if t.publishing {
			t.state = trainerHoldsBack
			return
		}
		t.publish()
	}
	t.state = trainerWorks
	t.timer.Set(now + t.length(order[t.phase]))
}

func (t *trainer) endPhase(now time.Duration) {
	t.endOf(order[t.phase], now)
	t.phase++
	t.beginPhase(now)
}

// length is how long a phase takes by itself.
func (t *trainer) length(phase steprecord.Phase) time.Duration {
	s := &t.setup.Trainer
	var d rollout.Duration
	switch phase {
	case steprecord.PhaseLoad:
		d = s.Load
	case steprecord.PhaseRefLogprobs:
		d = s.RefLogprobs
	case steprecord.PhaseTrain:
		d = s.Train
	case steprecord.PhasePublish:
		d = s.Publish
	case steprecord.PhaseCheckpoint:
		if s.Every > 0 && (int(t.step)+1)%s.Every == 0 {
			d = s.Checkpoint
		}
	case steprecord.PhaseWait, steprecord.PhaseOther:
	}
	if s.Variation <= 0 || d <= 0 {
		return d.Std()
	}
	variance := math.Log(1 + s.Variation*s.Variation)
	return time.Duration(float64(d) * math.Exp(math.Sqrt(variance)*t.random.Normal()-variance/2))
}

// publish asks for the next version to serve. The publish phase begins with it: engines load while it lasts.
func (t *trainer) publish() {
	t.publishing = true
	t.tries++
	v := t.version + 1
	t.run.handle(runmachine.PublishAsked{
		ID: fmt.Sprintf("publish/%d", t.tries), Version: v,
		Path: path.Join("/", t.setup.Adapters.PathPrefix, v.Adapter(t.setup.Name)),
	})
}

// published hears what became of a publication.
func (t *trainer) published(answer runmachine.AnswerPublication) {
	switch {
	case answer.Err == nil:
		t.version = answer.Policy.Version
	case rollout.Refused(answer.Err, rollout.Unavailable):
		t.agenda.At(t.now()+publishAgainAfter, classTrainer, t, publishAgain)
		return
	case !rollout.Refused(answer.Err, rollout.RunOver):
		t.fail(fmt.Errorf("publish version %d: %w", t.version+1, answer.Err))
	}
	t.publishing = false
	t.moved()
	if t.state == trainerPublishes || t.state == trainerHoldsBack {
		t.timer.Set(t.now())
	}
}

// record ends a step.
func (t *trainer) record(now time.Duration) {
	view := t.batch.View
	view.CompletedAt, view.Fleet, view.Engines = t.at(now), t.fleetView, t.engineViews
	t.records = append(t.records, steprecord.StepRecord{
		Step: t.step, Generation: 1, Done: true, Service: view,
		Trainer: steprecord.StepReport{WallSec: (now - t.asked).Seconds(), Phases: t.lengths, Metrics: metricsOf(&view)},
	})
	if t.options.Scaler != nil {
		t.options.Scaler.StepDone(&t.records[len(t.records)-1])
	}
	t.thin()
	t.batch = nil
	if err := t.buffer.Complete(t.step); err != nil {
		t.fail(err)
		return
	}
	t.moved()
	if t.options.Progress != nil {
		t.options.Progress(t.step, now)
	}
	t.run.tell(runmachine.BufferChanged{})
	t.step++
	if t.options.MaxSteps > 0 && int(t.step) >= t.options.MaxSteps {
		t.stopped = true
	}
	if int(t.step) >= t.setup.Steps {
		t.state = trainerDone
		return
	}
	t.ask(now)
}

// thin lets go of what is known of old steps beside their sums, so that a long run's records stay small.
func (t *trainer) thin() {
	old := len(t.records) - 1 - t.options.Detail
	if t.options.Detail <= 0 || old < 0 {
		return
	}
	t.records[old].Service.Groups, t.records[old].Service.Engines = []steprecord.GroupView{}, nil
	if old%64 > 0 {
		return
	}
	since := t.records[old].Service.CompletedAt
	in := &t.input
	in.Loads = slices.DeleteFunc(in.Loads, func(l diagnosis.AdapterLoad) bool { return l.At.Before(since) })
	in.Drops = slices.DeleteFunc(in.Drops, func(d diagnosis.Drop) bool { return d.At.Before(since) })
}

// metricsOf is what the demo trainer reports of a batch, as far as lengths tell.
func metricsOf(v *steprecord.ServiceView) map[string]float64 {
	var u rollout.Usage
	for i := range v.Groups {
		u = u.Add(v.Groups[i].Usage)
	}
	return map[string]float64{
		"groups": float64(len(v.Groups)), "trajectories": float64(v.Trajectories), "sequences": float64(u.Requests),
		"prompt_tokens": float64(u.InputTokens), "tokens": float64(u.OutputTokens),
		"staleness_min": float64(v.StalenessMin), "staleness_max": float64(v.StalenessMax),
	}
}

// viewFleet is the fleet since the batch before was granted.
func (t *trainer) viewFleet(now time.Duration) steprecord.FleetView {
	before, sec := t.atGrant, (now - t.grantAt).Seconds()
	t.atGrant, t.grantAt = t.fleet.Totals(), now
	after := t.atGrant
	engines, flying := after.EngineSec-before.EngineSec, after.InFlightSec-before.InFlightSec
	return steprecord.FleetView{
		WindowSec: sec, Engines: units.Share(engines, sec),
		// A step of an engine counts when it ends, so that a window may have a part of one that began before it.
		BusyShare: min(1, units.Share(after.BusySec-before.BusySec, engines)), InFlight: units.Share(flying, engines),
		// What drains has requests, and no limit any more.
		SlotShare:      min(1, units.Share(flying, after.LimitSec-before.LimitSec)),
		QueuedRequests: units.Share(after.QueuedSec-before.QueuedSec, sec),
		InputTPS:       units.Share(float64(after.Input-before.Input), sec),
		OutputTPS:      units.Share(float64(after.Output-before.Output), sec),
	}
}
