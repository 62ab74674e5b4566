package api

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/scaling/supply"
)

// Wait is what something waits for.
type Wait struct {
	What     string    `json:"what" doc:"What is waited for, such as batch, worker, engine, model, success, dispatch, games, adapter"`
	Owner    string    `json:"owner" doc:"Who waits"`
	Since    time.Time `json:"since,omitzero"`
	Deadline time.Time `json:"deadline,omitzero" doc:"When the wait ends by itself, where it does"`
	Detail   string    `json:"detail" doc:"What would end it"`
}

type waitList struct {
	Waits []Wait `json:"waits"`
}

func (s *Server) listWaits(ctx context.Context, in *RunPath) (waitList, error) {
	status, err := s.deps.Store.Status(ctx, in.Run)
	if err != nil {
		return waitList{}, err
	}
	counts, err := s.deps.Store.Counts(ctx, in.Run)
	if err != nil {
		return waitList{}, err
	}
	_, alarms, err := s.situation(ctx, status)
	if err != nil {
		return waitList{}, err
	}
	return waitList{s.waits(ctx, status, counts, alarms)}, nil
}

// waits gathers what this process knows. A trainer that polls another API server is seen by what the buffer keeps
// of its claims.
func (s *Server) waits(ctx context.Context, status runstatus.RunStatus, counts steprecord.BufferCounts,
	alarms []runstatus.Alarm) []Wait {
	run := status.Spec.Name
	closed, err := s.closedTo(ctx, run)
	if err != nil {
		s.deps.Log.WarnContext(ctx, "ask which engines workers do not dispatch to", "error", err)
	}
	list := describeWaits(status, counts, alarms, closed, s.waiters.of(run))
	if len(list) > 0 && list[0].What == "batch" || status.State.Over() {
		return list
	}
	asked, err := s.deps.Store.TrainerActivity(ctx, run)
	if err != nil || !asked.Waiting(s.deps.Now()) {
		return list
	}
	who := "trainer"
	if status.Spec.Evaluation.Run != "" {
		who = "service"
	}
	return append([]Wait{{What: "batch", Owner: fmt.Sprintf("%s, step %d", who, asked.Step), Since: asked.First,
		Detail: batchDetail(status, counts)}}, list...)
}

// closedTo is the engines to which workers do not dispatch the run's requests.
func (s *Server) closedTo(ctx context.Context, run rollout.RunName) ([]Wait, error) {
	engines, err := s.deps.Fleet.List(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.closures(ctx, engines); err != nil {
		return nil, err
	}
	view, scaled, err := s.deps.Fleet.Scaling(ctx)
	if err != nil {
		return nil, err
	}
	var waits []Wait
	if scaled && view.EndedAt.IsZero() && view.Awaits(engines) {
		waits = append(waits, coldStart(view))
	}
	for _, e := range engines {
		for _, c := range e.Closures {
			if e.State == enginestate.EngineReady && (c.Run == "" || c.Run == run) {
				waits = append(waits, Wait{What: "engine", Owner: "requests", Since: c.Since,
					Detail: fmt.Sprintf("engine %s is %s", e.ID, c.Text(s.deps.Now()))})
			}
		}
	}
	return waits, nil
}

// coldStart is the wait for the first engine of a fleet that was scaled to zero.
func coldStart(view supply.View) Wait {
	w := Wait{What: "engine", Owner: "requests",
		Detail: fmt.Sprintf("an engine of the fleet, which scaling starts (engine_cold): %d wanted, %d starting; "+
			"millrace engine scaling", view.Wanted, view.Actual.Starting)}
	for _, e := range view.Engines {
		if e.State == enginestate.EngineStarting && (w.Since.IsZero() || e.StartedAt.Before(w.Since)) {
			w.Since = e.StartedAt
		}
	}
	return w
}

// describeWaits lists the waits that follow from a run's state; the trainer's own come first.
func describeWaits(status runstatus.RunStatus, counts steprecord.BufferCounts, alarms []runstatus.Alarm, closed []Wait,
	polls []waiter) []Wait {
	waits := []Wait{}
	for _, poll := range polls {
		waits = append(waits, Wait{
			What: "batch", Owner: fmt.Sprintf("trainer, step %d, generation %d", poll.step, poll.generation),
			Since: poll.since, Deadline: poll.deadline, Detail: cmp.Or(poll.missing, batchDetail(status, counts)),
		})
	}
	if status.State.Over() {
		return waits
	}
	if status.State == runstatus.RunPaused {
		waits = append(waits, Wait{What: "resume", Owner: "run", Detail: "the run is paused and launches nothing; millrace " +
			"run resume " + string(status.Spec.Name)})
	}
	for _, a := range alarms {
		waits = append(waits, Wait{What: a.Code.Awaited(), Owner: "run", Since: a.Since, Detail: a.Text + "; " + a.Advice})
	}
	waits = append(waits, closed...)
	if throttle := throttleDetail(status, counts); throttle != "" {
		waits = append(waits, Wait{What: "room", Owner: "run", Detail: throttle})
	}
	if counts.Queued > 0 {
		detail := "a worker with room for a game, and an engine with room for a request"
		if len(alarms)+len(closed) > 0 {
			detail = "the same; then " + detail
		}
		waits = append(waits, Wait{What: "dispatch", Owner: fmt.Sprintf("%d queued groups", counts.Queued), Detail: detail})
	}
	if counts.InFlight > 0 {
		waits = append(waits, Wait{What: "games", Owner: fmt.Sprintf("%d groups in flight", counts.InFlight),
			Detail: fmt.Sprintf("the end of their games; each has %v from its first request", status.Spec.Timeouts.Episode)})
	}
	if counts.Claimed > 0 {
		waits = append(waits, Wait{What: "record", Owner: fmt.Sprintf("%d claimed groups", counts.Claimed),
			Detail: fmt.Sprintf("the trainer's record of step %d", status.NextStep)})
	}
	for _, policy := range status.Policies {
		if policy.State == runstatus.PolicyLoading {
			waits = append(waits, Wait{What: "adapter", Owner: fmt.Sprintf("policy version %d", policy.Version),
				Since:  policy.PublishedAt,
				Detail: "every ready engine to load and show adapter " + policy.Adapter})
		}
	}
	return waits
}

// throttleDetail says what would let the run launch more groups, if a bound keeps it from that.
func throttleDetail(status runstatus.RunStatus, counts steprecord.BufferCounts) string {
	b := status.Spec.Buffer
	held := fmt.Sprintf("%d of %d groups are outstanding", status.Outstanding, b.Outstanding())
	switch status.Throttle {
	case runstatus.ThrottleStaleness:
		return fmt.Sprintf("a completed step: with max_staleness %d, %s; more would have to end too stale",
			b.MaxStaleness, held)
	case runstatus.ThrottleBytes:
		return fmt.Sprintf("room for trajectories: %d of max_bytes %d bytes are stored, %s", counts.Bytes, b.MaxBytes, held)
	case runstatus.ThrottleFailures:
		return fmt.Sprintf("a group that does not fail, or a change of the run: all that ended lately failed, so that new "+
			"ones wait; %s", held)
	}
	return ""
}

func batchDetail(status runstatus.RunStatus, counts steprecord.BufferCounts) string {
	need := needed(status, counts)
	detail := fmt.Sprintf("%d ready groups of %d needed; %d in flight, %d queued", counts.Ready, need,
		counts.InFlight, counts.Queued)
	if status.Spec.Buffer.OnStale == runspec.WaitStale && counts.Ready >= int64(need) {
		detail += "; those in play that would become too stale without this batch are waited for"
	}
	return detail
}

// needed is how many groups must be ready for the next batch; the first one may wait for a full buffer.
func needed(status runstatus.RunStatus, counts steprecord.BufferCounts) int {
	if status.NextStep == 0 && counts.Claimed == 0 && counts.Completed == 0 {
		return status.Spec.Buffer.First(status.Spec.Steps)
	}
	return status.Spec.Buffer.GroupsPerStep
}
