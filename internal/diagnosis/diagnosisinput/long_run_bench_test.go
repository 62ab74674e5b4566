package diagnosisinput_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/diagnosis/diagnosisinput"
	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/engine/share/workerregistry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/scaling/scaledfleet"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/eventstore"
	"github.com/millrace/millrace/internal/store/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

// A run of 10,000 steps of 64 groups of 8 games on 8 engines, which the trainer has to wait for.
const (
	longSteps  = 10_000
	newSteps   = 500 // looked at one by one
	groups     = 64
	games      = 8
	engines    = 8
	computeSec = 150.0
	waitSec    = 60.0
	longRun    = rollout.RunName("long")
)

// BenchmarkDiagnoseLongRun reads what a diagnosis of a long run is made from out of a real Redis, and makes it. Making
// the run takes half a minute.
func BenchmarkDiagnoseLongRun(b *testing.B) {
	rdb := redistest.Real(b)
	reader := recordedRun(b, rdb)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		in, err := reader.Read(ctx, longRun, diagnosisinput.Steps{})
		if err != nil {
			b.Fatal(err)
		}
		r := diagnosis.Diagnose(in)
		if r.Ledger.Steps != longSteps || r.Verdict != diagnosis.VerdictProblem || len(r.Causes) == 0 {
			b.Fatalf("%d steps, %s: %s", r.Ledger.Steps, r.Verdict, r.Summary)
		}
	}
}

// BenchmarkReadLongRun is the reading alone.
func BenchmarkReadLongRun(b *testing.B) {
	rdb := redistest.Real(b)
	reader := recordedRun(b, rdb)
	for b.Loop() {
		if _, err := reader.Read(context.Background(), longRun, diagnosisinput.Steps{}); err != nil {
			b.Fatal(err)
		}
	}
}

// maker makes a run in Redis as the service does, on a clock of its own.
type maker struct {
	b      *testing.B
	ctx    context.Context
	at     time.Time
	rng    *rand.Rand
	buffer *buffer.Store
	events *store.Store
}

func (m *maker) ok(err error) {
	m.b.Helper()
	if err != nil {
		m.b.Fatal(err)
	}
}

func (m *maker) sleep(sec float64) { m.at = m.at.Add(time.Duration(sec * float64(time.Second))) }

func recordedRun(b *testing.B, rdb redis.UniversalClient) diagnosisinput.Reader {
	m := &maker{b: b, ctx: context.Background(), at: time.Now().Add(-14 * 24 * time.Hour),
		rng: rand.New(rand.NewPCG(1, 2)), events: store.New(rdb, "bench", store.Limits{})}
	m.buffer = buffer.New(rdb, buffer.Options{Prefix: "bench", Now: func() time.Time { return m.at }})
	spec := runspec.Spec{
		Name: longRun, Model: "m", Steps: 2 * longSteps, Environment: runspec.Environment{Kind: "diplomacy"},
		Group: runspec.GroupSpec{Samples: games, MinSamples: games},
		Buffer: runspec.BufferSpec{Depth: 2, GroupsPerStep: groups, MaxStaleness: 4, OnStale: runspec.DropStale,
			Prefill: runspec.PrefillBatch},
	}
	m.ok(m.buffer.Open(m.ctx, spec))
	const first = longSteps - newSteps
	status := runstatus.RunStatus{Spec: spec, State: runstatus.RunRunning, StartedAt: m.at, NextStep: first,
		Launched: first * groups}
	_, err := m.buffer.Repair(m.ctx, longRun, buffer.Repair{
		Era: 2, Mark: runstatus.Mark{Granted: first, Completed: first}, NextGroup: first * groups,
	})
	m.ok(err)
	m.older(first)
	generation, _, err := m.buffer.Attach(m.ctx, longRun, nil)
	m.ok(err)
	for step := first; step < longSteps; step++ {
		m.step(step, generation)
	}
	status.NextStep = longSteps
	m.ok(m.buffer.SaveStatus(m.ctx, status, 0))
	return diagnosisinput.Reader{
		Buffer: m.buffer, Registry: scaledfleet.Registry{Registry: fleet.NewRegistry(rdb, "bench", time.Now)},
		Workers: workerregistry.New(rdb, "bench", time.Now), Events: m.events,
	}
}

// older keeps what the service keeps of the steps before one, summed up block by block.
func (m *maker) older(to int) {
	var records []steprecord.StepRecord
	for k := range to + diagnosis.OlderSteps {
		at := m.at.Add(-time.Duration(float64(to-k) * (computeSec + waitSec) * float64(time.Second)))
		records = append(records, steprecord.StepRecord{
			Step: rollout.Step(k), Done: true, Trainer: m.report(),
			Service: steprecord.ServiceView{FirstAskedAt: at, GrantedAt: at.Add(waitSec * time.Second),
				CompletedAt: at.Add((computeSec + waitSec) * time.Second), Depth: 2, GroupsPerStep: groups},
		})
	}
	var older diagnosis.Older
	for int(older.To) < to {
		older = diagnosis.SumUp(older, records[older.To:int(older.To)+diagnosis.OlderSteps])
	}
	data, err := json.Marshal(older)
	m.ok(err)
	_, err = m.buffer.SaveOlder(m.ctx, longRun, 0, older.To, data)
	m.ok(err)
}

func (m *maker) report() steprecord.StepReport {
	around := func(sec float64) float64 { return sec * (1 + 0.05*m.rng.NormFloat64()) }
	phases := map[steprecord.Phase]float64{steprecord.PhaseWait: waitSec, steprecord.PhaseLoad: 3,
		steprecord.PhaseRefLogprobs: around(45), steprecord.PhaseTrain: around(95), steprecord.PhasePublish: 7}
	wall := 0.0
	for _, phase := range steprecord.Phases() {
		wall += phases[phase]
	}
	return steprecord.StepReport{WallSec: wall, Phases: phases}
}

// step plays, claims and completes one step: its last group comes while the trainer waits.
func (m *maker) step(step int, generation rollout.TrainerGeneration) {
	launched := m.at.Add(-(computeSec + waitSec) * time.Second)
	for i := range groups {
		ref := rollout.GroupRef{Run: longRun, Seq: rollout.GroupSeq(step*groups + i)}
		_, err := m.buffer.Queue(m.ctx, ref, []byte("s"), 0, launched)
		m.ok(err)
		m.ok(m.buffer.Start(m.ctx, ref))
		if i == groups-1 {
			_, err := m.buffer.Claim(m.ctx, longRun, rollout.Step(step), generation, buffer.Share{})
			if !rollout.Refused(err, rollout.NotReady) {
				m.b.Fatalf("step %d: %v", step, err)
			}
			m.sleep(waitSec)
		}
		_, err = m.buffer.CommitGroup(m.ctx, m.group(ref, launched))
		m.ok(err)
	}
	_, err := m.buffer.Claim(m.ctx, longRun, rollout.Step(step), generation, buffer.Share{})
	m.ok(err)
	m.sleep(computeSec)
	var views []enginestate.EngineView
	for e := range engines {
		id := rollout.EngineID(fmt.Sprintf("engine-%d", e))
		views = append(views, enginestate.EngineView{Engine: id, WindowSec: computeSec + waitSec, InFlight: 60, Running: 60,
			Limit: 64, OutputTPS: 1500 * (1 + 0.05*m.rng.NormFloat64()), InputTPS: 9000, Requests: 900, RequestSec: 14})
		m.ok(m.events.Tell(m.ctx, telemetry.Event{At: m.at, Run: longRun, Engine: id,
			Key: fmt.Sprintf("load/%d/%d", step, e), Body: telemetry.AdapterLoaded{Adapter: "long", Sec: 0.3}}))
	}
	m.ok(m.buffer.KeepEngines(m.ctx, longRun, rollout.Step(step), views))
	_, _, err = m.buffer.Complete(m.ctx, longRun, rollout.Step(step), generation, m.report(), steprecord.FleetView{
		WindowSec: computeSec + waitSec, Engines: engines, BusyShare: 1, SlotShare: 60.0 / 64, InFlight: 60,
		InputTPS: engines * 9000, OutputTPS: engines * 1500,
	})
	m.ok(err)
}

func (m *maker) group(ref rollout.GroupRef, launched time.Time) *rollout.Group {
	playing := m.at.Sub(launched).Seconds() - 5
	g := &rollout.Group{Ref: ref, Samples: games,
		Times: rollout.GroupTimes{LaunchedAt: launched, StartedAt: launched.Add(5 * time.Second), ReadyAt: m.at},
		Usage: rollout.Usage{Requests: games * 14, InputTokens: 6000 * games * 14, OutputTokens: 90 * games * 14,
			ExecSec: 0.95 * playing * games}}
	for sample := range games {
		sec := playing * (1 - 0.1*m.rng.Float64())
		g.EpisodeSec, g.ModelSec = append(g.EpisodeSec, sec), append(g.ModelSec, 0.95*sec)
		g.QueueSec, g.EnvSec = append(g.QueueSec, 0.02*sec), append(g.EnvSec, 0.01*sec)
		g.Phases = append(g.Phases, 14)
		g.Trajectories = append(g.Trajectories, rollout.Trajectory{
			ID: rollout.EpisodeRef{GroupRef: ref, Sample: sample}.TrajectoryID("AUSTRIA"), Sample: sample, Agent: "AUSTRIA",
			Reward: m.rng.Float64(), Turns: []rollout.Turn{{Phase: "S1901M", PromptTokenIDs: []int32{1}, TokenIDs: []int32{2},
				Logprobs: []float32{-1}, Engine: "engine-0", FinishReason: rollout.FinishStop}},
		})
	}
	rollout.Normalise(g.Trajectories)
	return g
}
