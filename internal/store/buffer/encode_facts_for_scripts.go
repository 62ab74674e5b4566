package buffer

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// The facts that scripts tell, as JSON. What only the script knows are holes in a template.

// claimedFact is the template of a batch that is formed.
func claimedFact(run rollout.RunName, step rollout.Step, now time.Time) ([]byte, error) {
	var h telemetry.Holes
	return h.Encode(telemetry.Event{
		At: now, Run: run, Key: fmt.Sprintf("%s/claim/%d/%d", run, step, now.UnixMilli()),
		Body: telemetry.BatchClaimed{
			Step: step,
			Counts: steprecord.BufferCounts{
				Queued: h.Int("queued"), InFlight: h.Int("in_flight"), Ready: h.Int("ready"), Claimed: h.Int("claimed"),
				Completed: h.Int("completed"), Dropped: h.Int("dropped"), Bytes: h.Int("bytes"),
			},
			StarvedSec:            h.Float("starved"),
			StalenessInFlightMean: h.Float("in_flight_mean"), StalenessInBufferMean: h.Float("in_buffer_mean"),
			ZeroVarianceGroups: int(h.Int("zero_variance")),
		},
	})
}

// completedFact is the fact of a completed step, with its kept record.
func completedFact(run rollout.RunName, now time.Time, record steprecord.StepRecord) ([]byte, error) {
	return telemetry.Encode(telemetry.Event{
		At: now, Run: run, Key: fmt.Sprintf("%s/step/%d", run, record.Step), Body: telemetry.StepCompleted{Record: record},
	})
}

func readyFact(g *rollout.Group, view steprecord.GroupView, now time.Time) ([]byte, error) {
	return telemetry.Encode(telemetry.Event{
		At: now, Run: g.Ref.Run, Key: g.Ref.String() + "/ready",
		Body: telemetry.GroupReady{Group: view, Trajectories: len(g.Trajectories), Failed: g.Failed},
	})
}

func droppedFact(ref rollout.GroupRef, code rollout.Code, phases []int, now time.Time) ([]byte, error) {
	return telemetry.Encode(telemetry.Event{
		At: now, Run: ref.Run, Key: ref.String() + "/dropped",
		Body: telemetry.GroupDropped{Seq: ref.Seq, Code: code, Phases: phases},
	})
}

// leftFact is the template of a group that was ready and is too stale by now, or lost.
func leftFact(run rollout.RunName, now time.Time) ([]byte, error) {
	var h telemetry.Holes
	ref := rollout.GroupRef{Run: run, Seq: rollout.GroupSeq(h.Int("seq"))}
	return h.Encode(telemetry.Event{
		At: now, Run: run, Key: ref.String() + "/dropped",
		Body: telemetry.GroupDropped{Seq: ref.Seq, Code: rollout.Code(h.Text("code"))},
	})
}

func finishedFact(ref rollout.EpisodeRef, ep *rollout.Episode, now time.Time) ([]byte, error) {
	rewards, oldest, newest := sampled(ep)
	return telemetry.Encode(telemetry.Event{
		At: now, Run: ref.Run, Key: ref.String() + "/finished",
		Body: telemetry.EpisodeFinished{
			Ref: ref, WallSec: ep.FinishedAt.Sub(ep.StartedAt).Seconds(), ModelSec: ep.ModelSec, EnvSec: ep.EnvSec,
			QueueSec: ep.QueueSec, Phases: ep.Phases, Attempts: ep.Attempts, Usage: ep.Usage, Counts: ep.Counts,
			Rewards: rewards, MinVersion: oldest, MaxVersion: newest,
		},
	})
}

// sampled is the reward of each agent of a game, and the range of policy versions that sampled its turns.
func sampled(ep *rollout.Episode) (rewards map[string]float64, oldest, newest rollout.PolicyVersion) {
	rewards, first := map[string]float64{}, true
	for i := range ep.Trajectories {
		t := &ep.Trajectories[i]
		rewards[t.Agent] = t.Reward
		for k := range t.Turns {
			v := t.Turns[k].PolicyVersion
			if first {
				oldest, newest, first = v, v, false
			}
			oldest, newest = min(oldest, v), max(newest, v)
		}
	}
	return rewards, oldest, newest
}

// FailedFact tells of an attempt that failed.
func FailedFact(t runstatus.FailedAttempt) telemetry.Event {
	name := t.Ref.String()
	if t.WarmUp {
		name = t.Ref.GroupRef.String() + "/warm-up"
	}
	return telemetry.Event{
		At: t.At, Run: t.Ref.Run, Key: fmt.Sprintf("%s/failed/%d", name, t.Attempt),
		Body: telemetry.EpisodeFailed{
			Ref: t.Ref, Code: t.Code, Failure: t.Error, Attempt: t.Attempt, Final: t.Final, Usage: t.Usage,
		},
	}
}

func alarmFact(run rollout.RunName, a runstatus.Alarm, now time.Time) ([]byte, error) {
	return telemetry.Encode(telemetry.Event{
		At: now, Run: run, Key: alarmKey(run, a.Code, now, true),
		Body: telemetry.AlarmChanged{Raised: true, Code: a.Code, Text: a.Text, Advice: a.Advice},
	})
}

// alarmOverFact is the template of an alarm that is taken back.
func alarmOverFact(run rollout.RunName, now time.Time) ([]byte, error) {
	var h telemetry.Holes
	code := runstatus.AlarmCode(h.Text("code"))
	return h.Encode(telemetry.Event{
		At: now, Run: run, Key: alarmKey(run, code, now, false), Body: telemetry.AlarmChanged{Code: code},
	})
}

func alarmKey(run rollout.RunName, code runstatus.AlarmCode, now time.Time, raised bool) string {
	return fmt.Sprintf("%s/alarm/%s/%d/%t", run, code, now.UnixMilli(), raised)
}

// encodeFacts are facts as arguments of a script.
func encodeFacts(facts []telemetry.Event) ([]any, error) {
	var args []any
	for _, e := range facts {
		b, err := telemetry.Encode(e)
		if err != nil {
			return nil, err
		}
		args = append(args, b)
	}
	return args, nil
}
