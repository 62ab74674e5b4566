package buffer_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/eventstore"
)

// told is the facts of the run that scripts told, of some kinds.
func (f *fixture) told(bodies ...telemetry.Body) (events []telemetry.Event) {
	f.t.Helper()
	var kinds []string
	for _, b := range bodies {
		kinds = append(kinds, telemetry.KindOf(b))
	}
	records, err := store.New(f.rdb, "millrace", store.Limits{}).Facts(f.ctx, run, "", 100_000, kinds...)
	f.ok(err)
	for _, r := range records {
		e, err := r.Event()
		f.ok(err)
		if e.Run != run || e.ID() == "" {
			f.t.Errorf("told of %q: %s", e.Run, r.Data)
		}
		events = append(events, e)
	}
	return events
}

// stale is the groups that were dropped because they became too stale.
func (f *fixture) stale() (drops []string) {
	f.t.Helper()
	for _, e := range f.told(telemetry.GroupDropped{}) {
		if b := e.Body.(telemetry.GroupDropped); b.Code == rollout.CodeStale {
			drops = append(drops, fmt.Sprintf("%s/%d %s", run, b.Seq, b.Code))
		}
	}
	return drops
}

// body checks that one fact with a key was told, and answers its body.
func (f *fixture) body(key string, of telemetry.Body) telemetry.Body {
	f.t.Helper()
	var found []telemetry.Body
	for _, e := range f.told(of) {
		if e.Key == key {
			found = append(found, e.Body)
		}
	}
	if len(found) != 1 {
		f.t.Fatalf("%d facts of kind %s have the key %s; all: %+v", len(found), telemetry.KindOf(of), key, f.told(of))
	}
	return found[0]
}

// TestScriptsTell: what a script tells is what the same event would be if Go made it of the record that is kept; and a
// call that is made twice tells it once.
func TestScriptsTell(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(2, 9))
		same := func(what string, got, want telemetry.Body) {
			t.Helper()
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s:\ngot  %+v\nwant %+v", what, got, want)
			}
		}
		f.queue(0, 9)

		_, err := f.Claim(f.ctx, run, 0, 0, buffer.Share{}) // the trainer waits from here on
		f.refused(err, rollout.NotReady)
		f.ready(0, 0, 1, 2)
		g := group(1, 0)
		ready := f.body("demo/1/ready", telemetry.GroupReady{}).(telemetry.GroupReady)
		same("ready", ready, telemetry.GroupReady{Group: ready.Group, Trajectories: len(g.Trajectories)})
		if got, want := ready.Group.Times, steprecord.ViewOf(g).Times; ready.Group.Seq != 1 ||
			!got.ReadyAt.Equal(want.ReadyAt) {
			t.Errorf("ready: %+v, want %+v", ready.Group, steprecord.ViewOf(g))
		}

		for range 2 {
			f.claim(0, 0)
		}
		record, err := f.Step(f.ctx, run, 0)
		f.ok(err)
		v := record.Service
		key := fmt.Sprintf("%s/claim/0/%d", run, v.GrantedAt.UnixMilli())
		same("claim", f.body(key, telemetry.BatchClaimed{}), telemetry.BatchClaimed{
			Step: 0, Counts: v.AtClaim, StarvedSec: v.GrantedAt.Sub(v.FirstAskedAt).Seconds(),
			StalenessInFlightMean: v.StalenessInFlightMean, StalenessInBufferMean: v.StalenessInBufferMean,
			ZeroVarianceGroups: v.ZeroVarianceGroups,
		})
		if v.GrantedAt.Equal(v.FirstAskedAt) || v.AtClaim.Bytes == 0 {
			t.Errorf("nothing was waited for, or measured: %+v", v)
		}

		record = f.complete(0, 0)
		if _, fresh, err := f.Complete(f.ctx, run, 0, 0, report(0), steprecord.FleetView{Engines: 2}); err != nil || fresh {
			t.Errorf("completed twice: %v", err)
		}
		same("step", f.body("demo/step/0", telemetry.StepCompleted{}), telemetry.StepCompleted{Record: record})

		f.ok(f.SetVersion(f.ctx, run, 2, 0))
		same("stale", f.body("demo/2/dropped", telemetry.GroupDropped{}), telemetry.GroupDropped{Seq: 2, Code: "stale"})
		for range 2 {
			f.ok(f.Discard(f.ctx, ref(3), "no_variance", 8, 9))
			_, err = f.Release(f.ctx, ref(4), "shrunk")
			f.ok(err)
			_, err = f.CommitGroup(f.ctx, group(5, 0))
			f.ok(err)
		}
		same("discarded", f.body("demo/3/dropped", telemetry.GroupDropped{}),
			telemetry.GroupDropped{Seq: 3, Code: "no_variance", Phases: []int{8, 9}})
		same("released", f.body("demo/4/dropped", telemetry.GroupDropped{}),
			telemetry.GroupDropped{Seq: 4, Code: "shrunk"})
		same("committed too late", f.body("demo/5/dropped", telemetry.GroupDropped{}),
			telemetry.GroupDropped{Seq: 5, Code: "stale", Phases: group(5, 0).Phases})

		ep := rollout.Episode{StartedAt: start, FinishedAt: start.Add(1500 * time.Millisecond), Phases: 7, Attempts: 1,
			Usage: rollout.Usage{Requests: 3}, Counts: map[string]int64{"holds": 2}, ModelSec: 1}
		for range 2 {
			f.ok(f.SaveEpisode(f.ctx, game(6, 1), 1, ep, []byte("end")))
		}
		same("finished", f.body("demo/6/1/finished", telemetry.EpisodeFinished{}), telemetry.EpisodeFinished{
			Ref: game(6, 1), WallSec: 1.5, ModelSec: 1, Phases: 7, Attempts: 1, Usage: ep.Usage, Counts: ep.Counts,
		})

		failed := runstatus.FailedAttempt{Ref: game(7, 0), Code: "timeout", Error: `no "answer"`, Attempt: 2, At: start,
			Usage: rollout.Usage{Requests: 5}}
		for range 2 {
			f.ok(f.AttemptFailed(f.ctx, failed))
		}
		same("failed", f.body("demo/7/0/failed/2", telemetry.EpisodeFailed{}), buffer.FailedFact(failed).Body)

		alarm := runstatus.Alarm{Code: runstatus.AlarmNoEngine, Text: "no engine", Advice: `add "one"`}
		now := start.Add(time.Hour)
		for range 2 {
			_, _, err = f.StandAlarms(f.ctx, run, now, []buffer.StandingAlarm{{Alarm: alarm}})
			f.ok(err)
		}
		same("alarm", f.body(fmt.Sprintf("demo/alarm/no_engine/%d/true", now.UnixMilli()), telemetry.AlarmChanged{}),
			telemetry.AlarmChanged{Raised: true, Code: alarm.Code, Text: alarm.Text, Advice: alarm.Advice})
		for range 2 {
			_, _, err = f.StandAlarms(f.ctx, run, now, nil)
			f.ok(err)
		}
		same("alarm over", f.body(fmt.Sprintf("demo/alarm/no_engine/%d/false", now.UnixMilli()), telemetry.AlarmChanged{}),
			telemetry.AlarmChanged{Code: alarm.Code})

		status, err := f.Status(f.ctx, run)
		f.ok(err)
		change := telemetry.Event{At: now, Run: run, Key: "change/7",
			Body: telemetry.RunChanged{State: runstatus.RunPaused, Change: "pause"}}
		f.ok(f.SaveStatus(f.ctx, status, 2))
		for range 2 { // late, and yet it was done
			f.ok(f.SaveStatus(f.ctx, status, 1, change))
		}
		same("changed", f.body("change/7", telemetry.RunChanged{}), change.Body)
	})
}

// factsAgree compares what was told with the account, whatever calls were made, and how often.
func (p *player) factsAgree() {
	p.t.Helper()
	counts := map[string]int64{}
	ids := map[string]int{}
	for _, e := range p.told() {
		counts[e.Kind()]++
		if ids[e.ID()]++; ids[e.ID()] > 1 && e.Kind() != "training_step" { // a step is done again after a rewind
			p.t.Errorf("%s is told %d times", e.ID(), ids[e.ID()])
		}
	}
	a, err := p.Account(p.ctx, run)
	p.ok(err)
	if got := counts["group_dropped"]; got != a.Counts.Dropped {
		p.t.Errorf("%d drops are told, %d groups were dropped", got, a.Counts.Dropped)
	}
	if got := counts["batch_claimed"]; got != int64(a.ClaimedTo) {
		p.t.Errorf("%d batches are told, %d were granted", got, a.ClaimedTo)
	}
	for k := range a.NextStep {
		if ids[fmt.Sprintf("%s/training_step/%s/step/%d", run, run, k)] == 0 {
			p.t.Errorf("nothing is told of step %d", k)
		}
	}
}
