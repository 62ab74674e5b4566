package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
	"github.com/millrace/millrace/internal/simulate/sim/workload"
)

// FuzzRun plays setups of all kinds, holds them to the invariants after every event, and plays them twice: the same
// setup leaves the same bytes.
func FuzzRun(f *testing.F) {
	for seed := range uint64(30) {
		f.Add(seed)
	}
	f.Add(uint64(93)) // an engine drains
	f.Fuzz(func(t *testing.T, seed uint64) {
		s := anySetup(virtualtime.SplitMix(seed))
		if err := s.Validate(); err != nil {
			return
		}
		first, again := bytesOf(t, s), bytesOf(t, s)
		if !bytes.Equal(first, again) {
			t.Errorf("the same setup leaves different records: %s", describe(s))
		}
	})
}

// bytesOf is all that a run leaves.
func bytesOf(t *testing.T, s Setup) []byte {
	t.Helper()
	r, err := Run(context.Background(), s, Options{check: checkInvariants(t)})
	hopeless := err != nil && (strings.Contains(err.Error(), "no engine serves") ||
		strings.Contains(err.Error(), "in a row came to nothing"))
	if err != nil && !hopeless {
		t.Fatalf("%v: %s", err, describe(s))
	}
	if err == nil && (!r.Status.State.Over() || len(r.Input.Records) != s.Steps) {
		t.Errorf("the run is %s after %d of %d steps: %s", r.Status.State, len(r.Input.Records), s.Steps, describe(s))
	}
	for _, record := range r.Input.Records {
		checkRecord(t, s, record)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// checkRecord holds a record to what every record of a live run keeps.
func checkRecord(t *testing.T, s Setup, r steprecord.StepRecord) {
	t.Helper()
	v := &r.Service
	sum := 0.0
	for _, sec := range r.Trainer.Phases {
		sum += sec
	}
	if math.Abs(sum-r.Trainer.WallSec) > 1e-6 {
		t.Errorf("step %d takes %g s, and its phases %g", r.Step, r.Trainer.WallSec, sum)
	}
	if v.GrantedAt.Before(v.FirstAskedAt) || v.CompletedAt.Before(v.GrantedAt) || !r.Done {
		t.Errorf("step %d was asked for at %v, granted at %v, completed at %v", r.Step, v.FirstAskedAt, v.GrantedAt,
			v.CompletedAt)
	}
	b := &s.Buffer
	if len(v.Groups) != b.GroupsPerStep || v.AtClaim.Ready < int64(b.GroupsPerStep) || v.AtClaim.Claimed > 0 {
		t.Errorf("step %d has %d groups, of %d that were ready", r.Step, len(v.Groups), v.AtClaim.Ready)
	}
	if b.OnStale == runspec.DropStale && v.StalenessMax > b.MaxStaleness || v.StalenessMin < 0 ||
		v.StalenessMin > v.StalenessMax || v.StalenessInFlightMean < 0 || v.StalenessInBufferMean < 0 {
		t.Errorf("step %d is %d to %d versions behind, of at most %d", r.Step, v.StalenessMin, v.StalenessMax,
			b.MaxStaleness)
	}
	for i := range v.Groups {
		g := &v.Groups[i]
		n := len(g.EpisodeSec)
		if n < s.Group.MinSamples || n > s.Group.Samples || len(g.Phases) != n || len(g.ModelSec) != n {
			t.Errorf("group %d has %d games, of %d to %d", g.Seq, n, s.Group.MinSamples, s.Group.Samples)
		}
		at := g.Times
		if at.StartedAt.Before(at.LaunchedAt) || at.ReadyAt.Before(at.StartedAt) || v.GrantedAt.Before(at.ReadyAt) {
			t.Errorf("group %d of step %d: %+v", g.Seq, r.Step, at)
		}
	}
	f := &v.Fleet
	if f.BusyShare < 0 || f.BusyShare > 1.001 || f.SlotShare < 0 || f.SlotShare > 1.001 || f.QueuedRequests < 0 {
		t.Errorf("the fleet at step %d: %+v", r.Step, *f)
	}
}

func describe(s Setup) string {
	text, _ := json.Marshal(s)
	return string(text)
}

// anySetup is a small setup with any of the options.
func anySetup(r *virtualtime.Random) Setup {
	s := Setup{Spec: spec.Default()}
	s.Name, s.Model, s.Steps, s.Seed = "any", "base", 2+r.IntN(5), int64(r.IntN(1000))
	samples := 1 + r.IntN(4)
	s.Group = runspec.GroupSpec{
		Samples: samples, MinSamples: 1 + r.IntN(samples), Oversample: r.IntN(3), Grace: upTo(r, 20),
		ZeroVariance: one(r, runspec.KeepZeroVariance, runspec.DropZeroVariance),
	}
	if s.Group.MinSamples < 2 {
		s.Group.ZeroVariance = runspec.KeepZeroVariance
	}
	s.Buffer = runspec.BufferSpec{
		Depth: 1 + r.IntN(4), GroupsPerStep: 1 + r.IntN(6), MaxStaleness: int64(r.IntN(5)),
		OnStale: one(r, runspec.DropStale, runspec.KeepStale, runspec.WaitStale),
		Prefill: one(r, runspec.PrefillFull, runspec.PrefillBatch),
		Order:   one(r, runspec.StartOrder, runspec.FinishOrder), MaxBytes: int64(one(r, 0, 0, 1, 2_000, 20_000)),
	}
	s.PolicyRefresh = one(r, runspec.RefreshGroup, runspec.RefreshTurn)
	s.Adapters.Quorum = r.IntN(3)
	s.Dispatch = runspec.Dispatch{
		Policy:         one(r, runspec.LeastTokens, runspec.RoundRobin),
		Order:          one(r, runspec.OldestGroup, runspec.ArrivalOrder, runspec.ShortestFirst),
		GroupPerEngine: r.IntN(3),
	}
	s.Timeouts.Episode = one(r, 0, 5*second, 300*second)
	s.Fleet = Fleet{
		Engines: 1 + r.IntN(4), Profile: DefaultProfile, MaxNumSeqs: one(r, 0, 1, 4), MaxInFlight: one(r, 0, 4),
		MaxLoRAs: r.IntN(4), ColdStart: upTo(r, 60), CallTime: one(r, 0, 0, 3*second),
	}
	s.Fleet.Events = anyEvents(r, s.Fleet.Engines)
	s.Trainer = Trainer{
		Load: upTo(r, 2), Train: upTo(r, 20), Publish: upTo(r, 5), PublishInBackground: r.IntN(2) == 0,
		Checkpoint: upTo(r, 5), Every: 2, Variation: one(r, 0, 0.3),
	}
	s.Workload.Distribution = &workload.Distribution{
		Phases: anySpread(r, 5), Agents: anySpread(r, 4), Prompt: anySpread(r, 600), Growth: 10 * r.Float64(),
		Output: anySpread(r, 40), Env: workload.Spread{Mean: r.Float64(), Spread: r.Float64()},
		Shared:   workload.SharedTokens{System: r.IntN(200), Group: r.IntN(300), Game: r.IntN(400)},
		Failures: one(r, 0, 0, 0.1), ZeroVariance: one(r, 0, 0.3), Stragglers: 0.1, StragglerFactor: 3,
	}
	s.Overheads = Overheads{
		Call: upTo(r, 1) / 50, Phase: upTo(r, 1) / 50, Launch: upTo(r, 1), Commit: upTo(r, 1) / 10, Claim: upTo(r, 1) / 5,
		Slots: one(r, 0, 0, 3, 10),
	}
	return s
}

func anyEvents(r *virtualtime.Random, engines int) []FleetEvent {
	var events []FleetEvent
	at := rollout.Duration(0)
	for range r.IntN(4) {
		at += upTo(r, 40)
		e := FleetEvent{At: at, Engine: r.IntN(engines), Kind: one(r, LoseEngine, DrainEngine, AddEngine, SlowEngine)}
		switch e.Kind {
		case SlowEngine:
			e.Factor = 0.5 + 2*r.Float64()
		case AddEngine:
			e.Engine = 0
		}
		if r.IntN(3) == 0 {
			e.At, e.Step = 0, rollout.Step(1+r.IntN(3))
		}
		events = append(events, e)
	}
	return events
}

func anySpread(r *virtualtime.Random, most float64) workload.Spread {
	return workload.Spread{Mean: 1 + (most-1)*r.Float64(), Spread: r.Float64()}
}

func upTo(r *virtualtime.Random, seconds float64) rollout.Duration {
	if r.IntN(4) == 0 {
		return 0
	}
	return rollout.Duration(seconds * r.Float64() * float64(time.Second))
}

func one[T any](r *virtualtime.Random, of ...T) T { return of[r.IntN(len(of))] }
