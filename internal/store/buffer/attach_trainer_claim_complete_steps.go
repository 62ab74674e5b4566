package buffer

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// Attach announces a trainer process and answers its generation and the first step it has to do; every process
// announced before is refused from then on. With resumeFrom the trainer rewinds to its checkpoint: the steps from there
// count as not completed, and their batches are given again as they were. A step that is not retained is refused as
// NotRetained, one that is not reached as OutOfOrder, and, when the run is over, one that is completed as RunOver; a
// refusal leaves the old process in charge.
func (s *Store) Attach(ctx context.Context, run rollout.RunName, resumeFrom *rollout.Step) (rollout.TrainerGeneration,
	rollout.Step, error) {
	from := ""
	if resumeFrom != nil {
		if *resumeFrom < 0 {
			return 0, 0, rollout.Refuse(rollout.Invalid, "steps are counted from 0; there is no step %d", *resumeFrom)
		}
		from = fmt.Sprint(int64(*resumeFrom))
	}
	r, err := s.eval(ctx, attachScript, run, append(append([]any{from}, s.known.floor(run)...), stamp(s.now()))...)
	if err != nil {
		return 0, 0, fmt.Errorf("attach trainer: %w", err)
	}
	if r.ok() {
		if err := s.told(ctx, run, markOf(r.list(3))); err != nil {
			return 0, 0, fmt.Errorf("attach trainer: %w", err)
		}
	}
	switch r.code() {
	case rollout.OutOfOrder:
		return 0, 0, rollout.Refuse(rollout.OutOfOrder,
			"cannot resume run %s from step %s: step %d is not completed; announce the trainer without a step, report step "+
				"%d, or resume from it or earlier",
			run, from, r.int(1), r.int(1))
	case rollout.NotRetained:
		return 0, 0, notRetained(run, from, r.int(1))
	case rollout.RunOver:
		return 0, 0, rollout.Refuse(rollout.RunOver, "run %s is over; its completed steps stay, and step %s is one of "+
			"them", run, from)
	}
	return rollout.TrainerGeneration(r.int(1)), rollout.Step(r.int(2)), nil
}

func notRetained(run rollout.RunName, step string, oldest int64) error {
	return rollout.Refuse(rollout.NotRetained,
		"the batch of step %s of run %s was trained on and is not kept; the oldest one kept is step %d; retain_steps of the "+
			"service configuration says how many are kept: at least as many steps as lie between two checkpoints of the "+
			"trainer should be", step, run, oldest)
}

// Claim is the batch of a step: the first fresh groups in the run's order, by launch or by when they became ready;
// within the batch they are in the order of their launch either way. Any step may be claimed that was claimed
// before, and gives the same batch as long as it is retained; or the next one, at most one ahead of the first step
// that is not completed. Refusals: NoSuchRun, Fenced, NotRetained, BatchLost, RunOver, Orphaned of a lost run,
// OutOfOrder, and NotReady, after which one asks again.
//
// Where the run waits for what would become too stale, a batch takes the oldest versions first, and is not given
// out before all groups that cannot be left to later batches, with one version published per step, are in it, those
// in play included. It never waits for more than fit. Nothing is dropped then: a group that is too stale all the
// same, because the trainer published twice in a step or the bound was lowered, is trained on and counted. A group
// in play of unknown version, in a Redis that was emptied, is waited for.
//
// The first batch waits for the prefill. Where a bound in bytes lets no such number come together, it is given out
// as soon as it is complete and nothing is played any more. A run that launches what a batch needs, and whatever
// else has room, never leaves a trainer waiting for groups that do not come. One that is paused while it is
// prefilled launches the rest when it goes on.
func (s *Store) Claim(ctx context.Context, run rollout.RunName, step rollout.Step, generation rollout.TrainerGeneration,
	share Share) (*rollout.Batch, error) {
	raw, err := s.ClaimRaw(ctx, run, step, generation, share)
	if err != nil {
		return nil, err
	}
	return raw.Batch()
}

// ClaimRaw is Claim without unpacking: the batch stays in its stored form, about a tenth of the unpacked one, and
// can be written out group by group.
func (s *Store) ClaimRaw(ctx context.Context, run rollout.RunName, step rollout.Step,
	generation rollout.TrainerGeneration, share Share) (*RawBatch, error) {
	if err := share.Validate(); err != nil {
		return nil, err
	}
	if step < 0 {
		return nil, rollout.Refuse(rollout.Invalid, "steps are counted from 0; there is no step %d", step)
	}
	now := s.now()
	claimed, err := claimedFact(run, step, now)
	if err != nil {
		return nil, err
	}
	left, err := leftFact(run, now)
	if err != nil {
		return nil, err
	}
	args := []any{int64(step), int64(generation), stamp(now), claimed, left}
	r, err := s.eval(ctx, claimScript, run, append(args, s.known.floor(run)...)...)
	if err != nil {
		return nil, fmt.Errorf("claim step: %w", err)
	}
	if !r.ok() {
		return nil, refusedClaim(run, step, generation, r)
	}
	b := &RawBatch{Run: run, Step: step, TrainerVersion: rollout.PolicyVersion(r.int(2)), Granted: r.int(1) == 1}
	b.Groups = shareOf(r.list(3), share)
	mark := markOf(r.list(4))
	mark.Grants = []runstatus.Grant{grantOf(step, b.TrainerVersion, r.list(3), r.str(5))}
	if err := s.told(ctx, run, mark); err != nil {
		return nil, fmt.Errorf("claim step: %w", err)
	}
	if err := s.fetch(ctx, b); err != nil {
		return nil, err
	}
	return b, nil
}

// Batch reads the batch of a step that was claimed before. It needs no generation, takes no step and fences no trainer.
// Refusals: NoSuchRun, NoSuchStep for a step that was never claimed, and NotRetained.
func (s *Store) Batch(ctx context.Context, run rollout.RunName, step rollout.Step) (*RawBatch, error) {
	r, err := s.eval(ctx, batchScript, run, int64(step))
	if err != nil {
		return nil, fmt.Errorf("read batch: %w", err)
	}
	switch r.code() {
	case rollout.NoSuchStep:
		return nil, rollout.Refuse(rollout.NoSuchStep, "step %d of run %s was not claimed yet; %d steps were",
			step, run, r.int(1))
	case rollout.NotRetained:
		return nil, notRetained(run, fmt.Sprint(int64(step)), r.int(1))
	case rollout.BatchLost:
		return nil, batchLost(run, step, rollout.Step(r.int(1)))
	}
	b := &RawBatch{Run: run, Step: step, TrainerVersion: rollout.PolicyVersion(r.int(1)),
		Groups: shareOf(r.list(2), Share{})}
	if err := s.fetch(ctx, b); err != nil {
		return nil, err
	}
	return b, nil
}

func refusedClaim(run rollout.RunName, step rollout.Step, generation rollout.TrainerGeneration, r reply) error {
	switch r.code() {
	case rollout.Fenced:
		return fenced(run, generation, r.int(1))
	case rollout.NotRetained:
		return notRetained(run, fmt.Sprint(int64(step)), r.int(1))
	case rollout.BatchLost:
		return batchLost(run, step, rollout.Step(r.int(1)))
	case rollout.RunOver:
		if r.str(1) == "steps" {
			return rollout.Refuse(rollout.RunOver, "run %s has %d steps, numbered from 0; there is no step %d",
				run, r.int(2), step)
		}
		return rollout.Refuse(rollout.RunOver, "run %s is over and gives out no more batches", run)
	case rollout.Orphaned:
		return rollout.Refuse(rollout.Orphaned, "run %s is lost and gives out no batches: %s; start this trainer again "+
			"when the run goes on", run.Plain(), r.str(1))
	case rollout.OutOfOrder:
		return outOfOrder(step, rollout.Step(r.int(1)), rollout.Step(r.int(2)))
	}
	size, c := r.int(1), r.list(2).counts()
	if missing := r.int(3); missing > 0 {
		return rollout.Refuse(rollout.NotReady,
			"step %d of run %s waits for %d groups in play that would become too stale without it: %d are ready, %d in "+
				"flight, %d queued; ask again",
			step, run, missing, c.Ready, c.InFlight, c.Queued)
	}
	return rollout.Refuse(rollout.NotReady, "step %d of run %s needs %d groups: %d are ready, %d in flight, %d "+
		"queued; ask again",
		step, run, size, c.Ready, c.InFlight, c.Queued)
}

// batchLost says what a trainer can do about a batch that Redis has lost: only the trainer knows whether its weights
// have learned from it.
func batchLost(run rollout.RunName, step, next rollout.Step) error {
	text := fmt.Sprintf("the batch of step %d of run %s was granted, and Redis came back without it; another batch is "+
		"not given for the same step unasked. ", step, run)
	again := fmt.Sprintf("announce the trainer with resume_from %d, or an earlier step, with weights from before that "+
		"step: the batch is then formed of other groups", step)
	if step == next {
		return rollout.Refuse(rollout.BatchLost, "%sA trainer that has trained on it records the step as usual; one that "+
			"has not, or goes back to a checkpoint: %s", text, again)
	}
	return rollout.Refuse(rollout.BatchLost, "%sTo train it (again), %s", text, again)
}

func fenced(run rollout.RunName, generation rollout.TrainerGeneration, current int64) error {
	if generation == 0 {
		return rollout.Refuse(rollout.Fenced,
			"run %s is served to the trainer process with generation %d, and this call names none; announce the process with "+
				"POST /v1/runs/%s/trainer and send the generation that it answers: ?generation=N with a claim, "+
				"\"generation\" in a record",
			run, current, run)
	}
	return rollout.Refuse(rollout.Fenced,
		"run %s is served to the trainer process with generation %d, not %d; this process was replaced, or must announce "+
			"itself first", run, current, generation)
}

func outOfOrder(step, next, granted rollout.Step) error {
	if granted > next+1 {
		return rollout.Refuse(rollout.OutOfOrder,
			"step %d cannot be claimed: steps %d and %d are claimed and not completed; complete step %d first", step,
			next, granted-1, next)
	}
	return rollout.Refuse(rollout.OutOfOrder, "step %d cannot be claimed: the next one is step %d", step, granted)
}

// Complete acknowledges a step's batch and keeps its record; steps are completed in order. The same report again is
// answered with the record and false. Refusals: NoSuchRun, Fenced, NotClaimed, OutOfOrder, and Conflict for another
// report of a completed step, which only a rewind allows.
func (s *Store) Complete(ctx context.Context, run rollout.RunName, step rollout.Step,
	generation rollout.TrainerGeneration,
	report steprecord.StepReport, fleet steprecord.FleetView,
) (steprecord.StepRecord, bool, error) {
	if step < 0 {
		return steprecord.StepRecord{}, false,
			rollout.Refuse(rollout.Invalid, "steps are counted from 0; there is no step %d", step)
	}
	reportText, err := json.Marshal(report)
	if err != nil {
		return steprecord.StepRecord{}, false, rollout.Refuse(rollout.Invalid, "report of step %d: %v", step, err)
	}
	fleetText, err := json.Marshal(fleet)
	if err != nil {
		return steprecord.StepRecord{}, false, rollout.Refuse(rollout.Invalid, "fleet at step %d: %v", step, err)
	}
	now := s.now()
	known, err := s.rdb.HGetAll(ctx, s.stepKey(run, step)).Result()
	if err != nil {
		return steprecord.StepRecord{}, false, fmt.Errorf("complete step: %w", trouble("redis", err))
	}
	views, err := packedViews(known["views"])
	if err != nil {
		return steprecord.StepRecord{}, false, fmt.Errorf("complete step: %w", err)
	}
	known["generation"] = fmt.Sprint(int64(generation))
	known["report"], known["fleet"] = string(reportText), string(fleetText)
	known["completed"], known["done"] = stamp(now), "1"
	completed, err := recordOf(step, known)
	if err != nil {
		return steprecord.StepRecord{}, false, fmt.Errorf("complete step: %w", err)
	}
	results, err := addResults(&completed.Service)
	if err != nil {
		return steprecord.StepRecord{}, false, fmt.Errorf("complete step: %w", err)
	}
	fact, err := completedFact(run, now, completed)
	if err != nil {
		return steprecord.StepRecord{}, false, fmt.Errorf("complete step: %w", err)
	}
	floor := s.known.floor(run)
	r, err := s.eval(ctx, completeScript, run, int64(step), int64(generation), stamp(now), reportText, fleetText,
		s.retain, views, s.detail, fact, floor[0], floor[1], now.Sub(completed.Service.GrantedAt).Seconds(), results)
	if err != nil {
		return steprecord.StepRecord{}, false, fmt.Errorf("complete step: %w", err)
	}
	if !r.ok() {
		return steprecord.StepRecord{}, false, refusedRecord(run, step, generation, r)
	}
	if err := s.told(ctx, run, markOf(r.list(3))); err != nil {
		return steprecord.StepRecord{}, false, fmt.Errorf("complete step: %w", err)
	}
	record, err := recordOf(step, r.fields(2))
	_ = s.collect(ctx, run) // else with the next group or step
	return record, r.int(1) == 1, err
}

func refusedRecord(run rollout.RunName, step rollout.Step, generation rollout.TrainerGeneration, r reply) error {
	switch r.code() {
	case rollout.Fenced:
		return fenced(run, generation, r.int(1))
	case rollout.NotClaimed:
		return rollout.Refuse(rollout.NotClaimed, "step %d of run %s was never claimed; the next one to claim is step %d",
			step, run, r.int(1))
	case rollout.OutOfOrder:
		return rollout.Refuse(rollout.OutOfOrder, "step %d cannot be completed before step %d is", step, r.int(1))
	}
	return rollout.Refuse(rollout.Conflict,
		"step %d of run %s is completed with another report; only a trainer that resumes from it or earlier can report it "+
			"again", step, run)
}

// fetch reads the packed groups of a batch. They never change while they are retained.
func (s *Store) fetch(ctx context.Context, b *RawBatch) error {
	found := make([]*redis.StringCmd, len(b.Groups))
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, g := range b.Groups {
			found[i] = p.HGet(ctx, s.groupKey("group", rollout.GroupRef{Run: b.Run, Seq: g.Seq}), "data")
		}
		return nil
	})
	if err == redis.Nil {
		return rollout.Refuse(rollout.NotRetained, "the batch of step %d of run %s was let go while it was "+
			"read", b.Step, b.Run)
	}
	if err != nil {
		return trouble("read batch", err)
	}
	for i := range b.Groups {
		b.Groups[i].packed, _ = found[i].Bytes()
	}
	return nil
}
