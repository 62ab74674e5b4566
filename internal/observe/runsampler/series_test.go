package runsampler

import (
	"encoding/json"
	"log/slog"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/engine/share/workerregistry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/scaling/scaledfleet"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/eventstore"
)

// deployment is two samplers on one Redis, in made-up time, and a run whose trainer claims and completes.
type deployment struct {
	t        *testing.T
	now      time.Time
	redis    *miniredis.Miniredis
	rdb      *redis.Client
	buffer   *buffer.Store
	events   *store.Store
	samplers []*Sampler
	spec     runspec.Spec
	seq      rollout.GroupSeq
}

func (d *deployment) state(state runstatus.RunState) {
	d.t.Helper()
	d.ok(d.buffer.SaveStatus(d.t.Context(), runstatus.RunStatus{Spec: d.spec, State: state, StartedAt: d.now}, 0))
}

const demo rollout.RunName = "demo"

func newDeployment(t *testing.T) *deployment {
	t.Helper()
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	d := &deployment{t: t, rdb: rdb, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), redis: server}
	d.events = store.New(rdb, "test", store.Limits{})
	clock := func() time.Time { return d.now }
	d.buffer = buffer.New(rdb, buffer.Options{Prefix: "test", Now: clock})
	log := slog.New(slog.DiscardHandler)
	for range 2 {
		engines := scaledfleet.Registry{Registry: fleet.NewRegistry(rdb, "test", clock)}
		d.samplers = append(d.samplers, New(rdb, "test", d.buffer, engines,
			workerregistry.New(rdb, "test", clock), telemetry.Discard, log))
	}
	spec := runspec.Spec{Name: demo, Model: "m", Steps: 1000, Environment: runspec.Environment{Kind: "tictactoe"},
		Group: runspec.GroupSpec{Samples: 2, MinSamples: 2},
		Buffer: runspec.BufferSpec{Depth: 2, GroupsPerStep: 1, MaxStaleness: 8, OnStale: runspec.DropStale,
			Prefill: runspec.PrefillBatch}}
	d.spec = spec
	d.ok(d.buffer.Open(t.Context(), spec))
	d.state(runstatus.RunRunning)
	return d
}

func (d *deployment) ok(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// rows is what the run's history says of its buffer, as any sink gets it.
func (d *deployment) rows() []telemetry.BufferLevel {
	d.t.Helper()
	records, err := d.events.Recent(d.t.Context(), demo, "", 1_000_000)
	d.ok(err)
	var rows []telemetry.BufferLevel
	ids := map[string]bool{}
	for _, r := range records {
		e, err := r.Event()
		d.ok(err)
		level, is := e.Body.(telemetry.BufferLevel)
		if !is {
			continue
		}
		if ids[e.ID()] {
			d.t.Errorf("two rows are %s", e.ID())
		}
		ids[e.ID()] = true
		rows = append(rows, level)
	}
	return rows
}

// TestTheSeriesOfTwoServersIsTheTrainersWaits: two servers look at once, either of them is absent for a while, and the
// trainer's waits come to the same in the events, in the step records and in its own reports.
func TestTheSeriesOfTwoServersIsTheTrainersWaits(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 7))
	d := newDeployment(t)
	ctx := t.Context()
	next := d.now
	absent := [2]time.Time{}
	// pass lets time pass; each is called every second of it.
	pass := func(sec float64, each func()) {
		end := d.now.Add(time.Duration(sec * float64(time.Second)))
		for next.Before(end) {
			d.now = next
			each()
			for i, s := range d.samplers {
				if r.IntN(40) == 0 {
					absent[i] = d.now.Add(time.Duration(r.IntN(90)) * time.Second)
				}
				if d.now.After(absent[i]) {
					d.ok(s.sampleAll(ctx, d.now.Add(time.Duration(i)*time.Millisecond)))
				}
			}
			next = next.Add(time.Second)
			d.redis.FastForward(time.Second)
		}
		d.now = end
	}
	claim := func(k rollout.Step) bool {
		_, err := d.buffer.Claim(ctx, demo, k, 0, buffer.Share{})
		if err != nil && !rollout.Refused(err, rollout.NotReady) {
			d.ok(err)
		}
		return err == nil
	}
	starved, prefill := 0.0, 0.0
	for k := range rollout.Step(30) {
		asked := d.now
		if wait := r.ExpFloat64() * 20; k == 0 || r.IntN(4) > 0 {
			claim(k)
			pass(wait, func() { claim(k) })
		}
		d.commit()
		if !claim(k) {
			t.Fatal("a batch is not ready")
		}
		waited := d.now.Sub(asked).Seconds()
		if k == 0 {
			prefill = waited
		} else {
			starved += waited
		}
		pass(5+r.ExpFloat64()*20, func() {})
		report := steprecord.StepReport{WallSec: d.now.Sub(asked).Seconds(),
			Phases: map[steprecord.Phase]float64{steprecord.PhaseWait: waited}}
		_, _, err := d.buffer.Complete(ctx, demo, k, 0, report, steprecord.FleetView{})
		d.ok(err)
	}
	d.state(runstatus.RunCompleted) // before anybody has compared the last record
	absent = [2]time.Time{}
	pass(10, func() {})

	var got, gotPrefill float64
	for _, row := range d.rows() {
		got, gotPrefill = got+row.StarvedSec, gotPrefill+row.PrefillSec
		if (row.Cause == "") != (row.StarvedSec+row.PrefillSec == 0) {
			t.Errorf("%+v", row)
		}
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.01*want {
			t.Errorf("%s: %.2f s, want %.2f s", what, got, want)
		}
	}
	near("rows, starved", got, starved)
	near("rows, prefill", gotPrefill, prefill)
	records, err := d.buffer.Steps(ctx, demo, 0, 0)
	d.ok(err)
	labelled := 0.0
	for _, record := range records {
		for cause, sec := range record.Service.StarvedBy {
			if record.Step > 0 {
				labelled += sec
			}
			if cause == steprecord.StarvedUnknown {
				t.Errorf("step %d: nobody knows why %.3f s", record.Step, sec)
			}
		}
	}
	near("labels of the records", labelled, starved)
}

// commit makes a group ready.
func (d *deployment) commit() {
	d.t.Helper()
	ref := rollout.GroupRef{Run: demo, Seq: d.seq}
	d.seq++
	g := &rollout.Group{Ref: ref, Samples: 1, Times: rollout.GroupTimes{LaunchedAt: d.now.Add(-3 * time.Second),
		StartedAt: d.now.Add(-2 * time.Second), ReadyAt: d.now}, EpisodeSec: []float64{2}, ModelSec: []float64{2}}
	text := `[{"trajectory_id":"` + ref.String() + `/x","agent":"x","turns":[{"prompt_token_ids":[1],"token_ids":[2],"logprobs":[-1],` +
		`"finish_reason":"stop"}]}]`
	d.ok(json.Unmarshal([]byte(text), &g.Trajectories))
	_, err := d.buffer.CommitGroup(d.t.Context(), g)
	d.ok(err)
}
