package diagnosis_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// trainerRun is a run that never waits, of steps of 150 s, each changed by change.
func trainerRun(steps int, change func(step int, phases map[steprecord.Phase]float64)) diagnosis.Input {
	in := diagnosis.Input{Spec: runspec.Spec{Name: "run"}}
	in.Spec.Buffer.Depth, in.Spec.Buffer.GroupsPerStep = 2, 8
	at := startOfRun
	for k := range steps {
		phases := map[steprecord.Phase]float64{steprecord.PhaseWait: 0, steprecord.PhaseLoad: 3,
			steprecord.PhaseRefLogprobs: 45,
			steprecord.PhaseTrain:       95, steprecord.PhasePublish: 7}
		if change != nil {
			change(k, phases)
		}
		wall := 0.0
		for _, sec := range phases {
			wall += sec
		}
		r := steprecord.StepRecord{Step: rollout.Step(k), Generation: 1, Done: true}
		r.Trainer = steprecord.StepReport{WallSec: wall, Phases: phases}
		r.Service.FirstAskedAt, r.Service.GrantedAt = at, at.Add(sec(phases[steprecord.PhaseWait]))
		at = at.Add(sec(wall))
		r.Service.CompletedAt, r.Service.Depth, r.Service.GroupsPerStep = at, 2, 8
		r.Service.ReadyDepth = 2
		in.Records = append(in.Records, r)
	}
	return in
}

func sec(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// later shifts all steps from one on: the trainer had no step before it.
func later(in diagnosis.Input, step int, gap float64) diagnosis.Input {
	for i := step; i < len(in.Records); i++ {
		v := &in.Records[i].Service
		v.FirstAskedAt, v.GrantedAt = v.FirstAskedAt.Add(sec(gap)), v.GrantedAt.Add(sec(gap))
		v.CompletedAt = v.CompletedAt.Add(sec(gap))
	}
	return in
}

// noisy multiplies every phase with AR(1) noise.
func noisy(in diagnosis.Input, seed uint64, cv float64) diagnosis.Input {
	rng := rand.New(rand.NewPCG(seed, 5))
	e := rng.NormFloat64()
	for i := range in.Records {
		e = 0.5*e + math.Sqrt(0.75)*rng.NormFloat64()
		t := &in.Records[i].Trainer
		t.WallSec = 0
		for phase, sec := range t.Phases {
			t.Phases[phase] = sec * math.Exp(cv*e)
			t.WallSec += t.Phases[phase]
		}
	}
	return in
}

// TestTheLedgerNamesEveryLoss: what it is, after how many steps it comes back and what one time costs.
func TestTheLedgerNamesEveryLoss(t *testing.T) {
	t.Parallel()
	every := func(n int, phase steprecord.Phase, cost float64) func(int, map[steprecord.Phase]float64) {
		return func(k int, phases map[steprecord.Phase]float64) {
			if k%n == n-1 {
				phases[phase] += cost
			}
		}
	}
	from := func(step int, phase steprecord.Phase, cost float64) func(int, map[steprecord.Phase]float64) {
		return func(k int, phases map[steprecord.Phase]float64) {
			if k >= step {
				phases[phase] += cost
			}
		}
	}
	at := func(cost float64, phase steprecord.Phase, steps ...int) func(int, map[steprecord.Phase]float64) {
		return func(k int, phases map[steprecord.Phase]float64) {
			for _, s := range steps {
				if k == s {
					phases[phase] += cost
				}
			}
		}
	}
	restarted := later(trainerRun(30, nil), 12, 600)
	for i := 12; i < 30; i++ {
		restarted.Records[i].Generation = 2
	}
	for _, tt := range []struct {
		name    string
		in      diagnosis.Input
		cause   diagnosis.CauseName
		every   int
		lost    float64
		verdict diagnosis.Verdict
		says    string
	}{
		{"a checkpoint every 5 steps", trainerRun(36, every(5, steprecord.PhaseCheckpoint, 120)), diagnosis.CauseCheckpoint,
			5,
			7 * 120, diagnosis.VerdictProblem, "checkpoint every 5 steps, 120 s each"},
		{"the same, and nobody says what it is", trainerRun(36, every(5, steprecord.PhaseOther, 120)),
			diagnosis.CausePeriodicPhase, 5, 7 * 120, diagnosis.VerdictProblem, "every 5 steps, 120 s each"},
		{"the same, with noise", noisy(trainerRun(36, every(5, steprecord.PhaseOther, 120)), 3, 0.05),
			diagnosis.CausePeriodicPhase, 5, 7 * 120, diagnosis.VerdictProblem, "every 5 steps"},
		{"every second step", trainerRun(36, every(2, steprecord.PhaseOther, 60)), diagnosis.CausePeriodicPhase, 2, 18 * 60,
			diagnosis.VerdictProblem, "every 2 steps, 60 s each"},
		{"every 20 steps", trainerRun(100, every(20, steprecord.PhaseTrain, 300)), diagnosis.CausePeriodicPhase, 20, 5 * 300,
			diagnosis.VerdictProblem, "every 20 steps"},
		{"now and then", trainerRun(60, at(200, steprecord.PhaseOther, 7, 11, 30, 52)), diagnosis.CauseRarePhase, 0, 800,
			diagnosis.VerdictProblem, "in 4 steps, 200 s each"},
		{"an evaluation every 10 steps", trainerRun(60, every(10, "eval_dev", 100)), diagnosis.CausePeriodicPhase, 10, 600,
			diagnosis.VerdictProblem, `"eval_dev" every 10 steps, 100 s each`},
		{"one slow step", trainerRun(30, at(293, steprecord.PhaseTrain, 17)), diagnosis.CauseSingleStep, 0, 293,
			diagnosis.VerdictHealed, "Step 17 took 443 s, 293 s of it more than usual in training"},
		{"slow to publish, again and again", trainerRun(30, at(90, steprecord.PhasePublish, 3, 8, 14, 19, 23, 27)),
			diagnosis.CauseSingleStep, 0, 6 * 90, diagnosis.VerdictProblem, "6 steps, the longest step 3 with 240 s"},
		{"one late batch", trainerRun(30, at(293, steprecord.PhaseWait, 17)), diagnosis.CauseSingleStep, 0, 293,
			diagnosis.VerdictHealed, "Step 17 took 443 s, 293 s of it more than usual in waiting for batches"},
		{"slow to publish", trainerRun(36, from(0, steprecord.PhasePublish, 73)), diagnosis.CausePublish, 0, 36 * 80,
			diagnosis.VerdictProblem, "ublishing weights"},
		{"a restart", restarted, diagnosis.CauseRestart, 0, 600, diagnosis.VerdictHealed, "600 s without a step"},
		{"a break", later(trainerRun(30, nil), 12, 600), diagnosis.CauseBetweenSteps, 0, 600, diagnosis.VerdictHealed,
			"the trainer had no step, once: 600 s"},
		{"trains slower since step 20", trainerRun(40, from(20, steprecord.PhaseTrain, 75)), diagnosis.CauseTrainer, 0,
			20 * 75,
			diagnosis.VerdictProblem, "training"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := diagnosis.Diagnose(tt.in)
			checkLedger(t, tt.in, r)
			if len(r.Findings) == 0 || r.Findings[0].Cause != tt.cause || r.Verdict != tt.verdict || len(r.Ledger.Losses) == 0 {
				t.Fatalf("want %s, %s:\n%s", tt.cause, tt.verdict, text(t, r))
			}
			got := r.Ledger.Losses[0]
			if got.Cause != tt.cause || got.Every != tt.every || math.Abs(got.Sec-tt.lost) > 0.1*tt.lost {
				t.Errorf("got %+v; want %g s every %d", got, tt.lost, tt.every)
			}
			first := slices.IndexFunc(r.Causes, func(c diagnosis.Cause) bool { return c.Decision == diagnosis.IsCause })
			if first < 0 || r.Causes[first].Name != tt.cause {
				t.Errorf("causes: %+v", r.Causes)
			}
			if all := text(t, r); !strings.Contains(strings.ReplaceAll(all, "\n", " "), tt.says) {
				t.Errorf("does not say %q:\n%s", tt.says, all)
			}
		})
	}
}

// TestAHealthyRunLosesLittle: noise alone is no loss, and what is small is said and no problem.
func TestAHealthyRunLosesLittle(t *testing.T) {
	t.Parallel()
	alarms := 0
	for seed := range uint64(100) {
		in := noisy(trainerRun(36, nil), seed, 0.1)
		r := diagnosis.Diagnose(in)
		checkLedger(t, in, r)
		if r.Verdict != diagnosis.VerdictHealthy {
			alarms++
			t.Logf("seed %d: %s", seed, r.Summary)
		}
	}
	if alarms > 3 {
		t.Errorf("%d of 100 healthy runs are not", alarms)
	}
	r := diagnosis.Diagnose(trainerRun(60, func(k int, phases map[steprecord.Phase]float64) {
		if k%20 == 19 {
			phases[steprecord.PhaseCheckpoint] = 60
		}
	}))
	const says = "a checkpoint every 20 steps, 60 s each (2 % of"
	if r.Verdict != diagnosis.VerdictHealthy || !strings.Contains(r.Summary, says) {
		t.Errorf("a small loss: %s %s", r.Verdict, r.Summary)
	}
}

// checkLedger: every second is useful compute or one loss, and no run that lost much is healthy.
func checkLedger(t *testing.T, in diagnosis.Input, r diagnosis.Report) {
	t.Helper()
	l := r.Ledger
	wall := 0.0
	for _, rec := range in.Records {
		wall += rec.StepSec()
	}
	sum, phases := l.UsefulSec, 0.0
	for _, loss := range l.Losses {
		if loss.Sec < 0 || loss.Text == "" || loss.Steps < 1 {
			t.Errorf("a loss of %+v", loss)
		}
		sum += loss.Sec
	}
	for _, sec := range l.Phases {
		phases += sec
	}
	if math.Abs(sum-l.WallSec) > 1e-6*l.WallSec || l.WallSec < wall-1e-6*wall ||
		math.Abs(phases-l.UsefulSec) > 1e-6*l.WallSec {
		t.Errorf("%v s useful (phases %v) and lost of %v s; steps of %v s", sum, phases, l.WallSec, wall)
	}
	if r.Goodput != l.Goodput() || math.Abs(r.Goodput+l.LostShare-1) > 1e-9 {
		t.Errorf("goodput %v, lost %v", r.Goodput, l.LostShare)
	}
	if r.Verdict == diagnosis.VerdictHealthy && l.LostShare > 0.05 {
		t.Errorf("healthy, and %v lost:\n%s", l.LostShare, text(t, r))
	}
}

// TestReportsAreJSON: whatever moves, and however, a report has numbers that JSON can say, and its ledger adds up.
func TestReportsAreJSON(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 5))
		slope, every, much := 0.97+0.06*rng.Float64(), 1+rng.IntN(9), 200*rng.Float64()
		names := []steprecord.Phase{steprecord.PhaseTrain, steprecord.PhaseRefLogprobs, steprecord.PhasePublish, "mine"}
		in := trainerRun(12+rng.IntN(60), func(step int, phases map[steprecord.Phase]float64) {
			for name := range phases {
				phases[name] *= math.Pow(slope, float64(step))
			}
			if step%every == 0 {
				phases[names[rng.IntN(len(names))]] += much
			}
			if seed%3 == 0 { // the work moves from phase to phase
				swap := step % 2
				phases[names[swap]], phases[names[1-swap]] = phases[names[swap]]+30, 0
			}
		})
		report := diagnosis.Diagnose(in)
		if _, err := json.Marshal(report); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		l := report.Ledger
		if l == nil || math.Abs(l.UsefulSec+l.LostSec-l.WallSec) > 1e-6*l.WallSec {
			t.Errorf("seed %d: %+v", seed, l)
		}
	}
}
