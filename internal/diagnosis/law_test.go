package diagnosis_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// Whatever the records hold, the report adds up, can be written, and comes out the same again.
func FuzzDiagnoseLaws(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(seed, seed%3 == 0)
	}
	f.Fuzz(func(t *testing.T, seed uint64, broken bool) {
		rng := rand.New(rand.NewPCG(seed, 5))
		in := randomRun(rng).input()
		circumstances(rng, &in)
		if broken {
			corrupt(rng, in.Records)
		}
		r := diagnosis.Diagnose(in)
		checkSums(t, r)
		if _, err := json.Marshal(r); err != nil {
			t.Errorf("the report cannot be written: %v", err)
		}
		if text(t, r) == "" {
			t.Error("the report says nothing")
		}
		rng.Shuffle(len(in.Records), func(i, j int) { in.Records[i], in.Records[j] = in.Records[j], in.Records[i] })
		if again := diagnosis.Diagnose(in); !reflect.DeepEqual(again, r) {
			t.Errorf("in another order the records say something else:\n%s\n%s", text(t, again), text(t, r))
		}
	})
}

func randomRun(rng *rand.Rand) simRun {
	m := simRun{
		compute: 50 + 200*rng.Float64(), groups: 1 + rng.IntN(12), depth: 1 + rng.IntN(4), engines: 1 + rng.IntN(8),
		places: float64(1 + rng.IntN(8)), group: 20 + 600*rng.Float64(), steps: rng.IntN(30), noise: 0.2 * rng.Float64(),
		seed: rng.Uint64(), speed: 1 + 50*rng.Float64(),
	}
	if rng.IntN(3) == 0 {
		m.prefill = 1
	}
	if rng.IntN(3) == 0 {
		m.load = 30 * rng.Float64()
	}
	if rng.IntN(4) == 0 {
		m.workers = 1 + rng.IntN(20)
	}
	m.noFleet = rng.IntN(8) == 0
	if rng.IntN(3) == 0 {
		m.bounded, m.stale = true, rng.IntN(4)
	}
	if rng.IntN(3) == 0 {
		m.fits = m.groups * (1 + rng.IntN(3))
	}
	return m
}

// circumstances adds what a run tells beside its steps, true or not.
func circumstances(rng *rand.Rand, in *diagnosis.Input) {
	in.Spec.Buffer.OnStale = []runspec.OnStale{runspec.DropStale, runspec.KeepStale, runspec.WaitStale, ""}[rng.IntN(4)]
	in.Throttle = []runstatus.Throttle{"", runstatus.ThrottleBytes, runstatus.ThrottleStaleness, "novel"}[rng.IntN(4)]
	in.Spec.Buffer.MaxBytes = rng.Int64N(1 << 40)
	in.RewardVariance = runstatus.RewardVariance{
		Groups: rng.IntN(33), ZeroVariance: rng.IntN(33), Collapsed: rng.IntN(2) == 0}
	for i := range in.Records {
		v := &in.Records[i].Service
		v.ZeroVarianceGroups = rng.IntN(len(v.Groups) + 1)
		for range rng.IntN(6) {
			in.Drops = append(in.Drops, diagnosis.Drop{At: v.GrantedAt,
				Code: []rollout.Code{"stale", "shrunk", "zero_variance"}[rng.IntN(3)]})
		}
		if rng.IntN(10) == 0 {
			now := runstatus.RewardVariance{Collapsed: rng.IntN(2) == 0}
			in.RewardVarianceChanges = append(in.RewardVarianceChanges,
				diagnosis.RewardVarianceChange{At: v.GrantedAt, RewardVariance: now})
		}
	}
	for _, code := range []rollout.Code{steprecord.Trained, "stale", "zero_variance"} {
		in.Departures = append(in.Departures, counted(code, rng.Int64N(50), rng.Int64N(50), rng.Int64N(50)))
	}
}

// corrupt breaks some records in ways that clocks, crashes and strange trainers could.
func corrupt(rng *rand.Rand, records []steprecord.StepRecord) {
	for i := range records {
		r := &records[i]
		if rng.IntN(3) > 0 {
			continue
		}
		switch rng.IntN(12) {
		case 0:
			r.Service.Groups = nil
		case 1:
			r.Service.GrantedAt = time.Time{}
		case 2:
			r.Trainer.WallSec = math.NaN()
		case 3:
			r.Trainer.Phases[steprecord.PhaseWait] = 1e300
		case 4:
			r.Trainer = steprecord.StepReport{WallSec: 3}
		case 5:
			r.Service.Fleet = steprecord.FleetView{WindowSec: 1, Engines: 1}
		case 6:
			r.Done = false
		case 7:
			r.Service.CompletedAt = r.Service.FirstAskedAt.Add(-time.Hour)
		case 9:
			r.Service.AtClaim = steprecord.BufferCounts{Ready: rng.Int64N(1 << 40)}
		case 10:
			r.Service.Depth, r.Service.GroupsPerStep = 0, 0
		case 11:
			r.Trainer.Phases[steprecord.PhaseWait] = r.Trainer.WallSec
		case 8:
			for j := range r.Service.Groups {
				r.Service.Groups[j].Times = rollout.GroupTimes{}
				r.Service.Groups[j].EpisodeSec = nil
			}
		}
	}
}
