package server

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"reflect"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/runrecord"
	"github.com/millrace/millrace/internal/sim"
)

// recorded is a recorded run, as the stores have it.
func recorded(t *testing.T) (diagnosis.Input, readRecord) {
	t.Helper()
	const path = "../sim/calibration/testdata/seed-004/base.json.gz"
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	record, err := runrecord.Read(path, f)
	if err != nil {
		t.Fatal(err)
	}
	return diagnosis.Input{Spec: record.Run.Spec, Records: record.Steps},
		func(context.Context, rollout.RunName, []rollout.StepRecord) (*runrecord.Record, error) {
			return record, nil
		}
}

// A run is simulated once for each record, and every diagnosis after that says how well the simulation meets it.
func TestSimulatedDiagnosis(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("simulates some dozen runs: some seconds")
	}
	in, record := recorded(t)
	s := newSimulatedRuns(record, sim.Run, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.run(ctx) }()
	first := s.diagnose(ctx, in) // in time or not
	job := s.job(in)
	if job == nil || first.Replay == nil {
		t.Fatalf("no simulation was begun; replay %+v", first.Replay)
	}
	<-job.ready
	report := s.diagnose(ctx, in)
	if report.Simulator == nil || !report.Simulator.Explains {
		t.Errorf("simulator %+v", report.Simulator)
	}
	if again := s.diagnose(ctx, in); !reflect.DeepEqual(again, report) || s.job(in) != job {
		t.Error("the same record is diagnosed otherwise, or simulated again")
	}
	in.Spec.Buffer.Depth++
	if s.job(in) == job {
		t.Error("a run that was changed has the simulation of before")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Without a simulation a diagnosis is what it was: of few steps, of too many games, and of a record that says too
// little.
func TestDiagnosisWithoutSimulation(t *testing.T) {
	t.Parallel()
	in, _ := recorded(t)
	broken := func(context.Context, rollout.RunName, []rollout.StepRecord) (*runrecord.Record, error) {
		return nil, errors.New("the store is down")
	}
	s := newSimulatedRuns(broken, sim.Run, slog.New(slog.DiscardHandler))
	go func() { _ = s.run(t.Context()) }() // ends with the test
	large := in
	large.Records = nil
	for _, r := range in.Records {
		r.Service.Groups = append([]rollout.GroupView{{Usage: rollout.Usage{Requests: 1e6}}}, r.Service.Groups...)
		large.Records = append(large.Records, r)
	}
	few := in
	few.Records = in.Records[:3]
	for name, in := range map[string]diagnosis.Input{"the store is down": in, "too many games": large, "few steps": few} {
		if got := s.diagnose(t.Context(), in); !reflect.DeepEqual(got, diagnosis.Diagnose(in)) {
			t.Errorf("%s: the report is another one", name)
		}
	}
}
