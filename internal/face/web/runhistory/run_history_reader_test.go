package runhistory

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/kit/panics"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/eventstore"
)

// source is a store with the records of one run.
type source struct {
	records map[rollout.Step]steprecord.StepRecord
	facts   []store.Record
	samples []store.Record // of the run or the fleet that their events name
	reads   int            // of records
}

// record is an event as a store has it; without a body it is of another version.
func record(id string, e telemetry.Event) store.Record {
	data := []byte(`{"kind":"of another version"}`)
	if e.Body != nil {
		var err error
		if data, err = telemetry.Encode(e); err != nil {
			panic(err)
		}
	}
	return store.Record{ID: id, Scope: e.Run, Data: data}
}

func (s *source) put(from, to rollout.Step, generation rollout.TrainerGeneration) {
	for k := from; k < to; k++ {
		r := steprecord.StepRecord{Step: k, Done: true, Generation: generation}
		r.Service.CompletedAt = time.Unix(int64(k)*10+int64(generation), 0)
		s.records[k] = r
	}
}

func (s *source) AllSteps(_ context.Context, _ rollout.RunName, from rollout.Step, limit int) ([]steprecord.StepRecord,
	error) {
	var page []steprecord.StepRecord
	for k := from; k < from+rollout.Step(limit); k++ {
		if r, known := s.records[k]; known {
			page = append(page, r)
			s.reads++
		}
	}
	return page, nil
}

func (s *source) Facts(_ context.Context, run rollout.RunName, after string, limit int, _ ...string) ([]store.Record,
	error) {
	if run == "" {
		return nil, nil
	}
	var page []store.Record
	for _, f := range s.facts {
		if f.ID > after && len(page) < limit {
			page = append(page, f)
		}
	}
	return page, nil
}

func (s *source) Samples(_ context.Context, run rollout.RunName, after string, limit int,
	_ ...string) ([]store.Record, string,
	bool, error) {
	var page []store.Record
	for _, f := range s.samples {
		if f.Scope == run && f.ID > after && len(page) < limit {
			page, after = append(page, f), f.ID
		}
	}
	return page, after, len(page) == limit, nil
}

// A history is what the records are, whatever became of those that were read before, and reads few of them again.
func TestHistoryIsTheRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{records: map[rollout.Step]steprecord.StepRecord{}}
		h := New(s, s, panics.Watch{Log: slog.New(slog.DiscardHandler)})
		status := runstatus.RunStatus{Spec: runspec.Spec{Name: "demo"}}
		look := func(what string, next rollout.Step, most int) View {
			t.Helper()
			time.Sleep(2 * time.Second)
			status.NextStep, s.reads = next, 0
			v, _ := h.Of(context.Background(), status, time.Second, time.Second)
			synctest.Wait()
			v, _ = h.Of(context.Background(), status, time.Second, time.Second)
			if v.Behind || s.reads > most {
				t.Errorf("%s: behind %v, after %d records of at most %d", what, v.Behind, s.reads, most)
			}
			count := 0
			for _, r := range v.Steps {
				if want, known := s.records[r.No]; !known || want.Generation != r.Generation ||
					!want.Service.CompletedAt.Equal(r.At) {
					t.Errorf("%s: step %d is %+v", what, r.No, r)
				}
				count++
			}
			if count != min(len(s.records), MostSteps) {
				t.Errorf("%s: %d steps of %d", what, count, len(s.records))
			}
			return v
		}
		look("nothing", 0, 0)
		s.put(0, 1000, 1)
		look("the first look", 1000, 1000)
		look("nothing new", 1000, overlap)
		s.put(1000, 1003, 1)
		look("three more", 1003, overlap+3)
		for k := rollout.Step(900); k < 1003; k++ { // the trainer went back, and came further than it was
			delete(s.records, k)
		}
		s.put(900, 1010, 2)
		look("others in their place", 1010, 1010+overlap+10)
		for k := rollout.Step(1010); k < 1600; k += 2 { // Redis has lost every other one
			s.put(k, k+1, 2)
		}
		look("holes", 1600, 400)
		clear(s.records)
		s.put(0, 5, 3)
		status.Rollbacks = 1
		look("Redis came back older", 5, 5)
		s.put(5, MostSteps+500, 3)
		if v := look("more than are kept", MostSteps+500, MostSteps+2*stepsPage); v.Steps[0].No != 500 {
			t.Errorf("the oldest kept is %d", v.Steps[0].No)
		}
	})
}

// Each fact is told once, in the order in which it came, and what another version wrote is passed over.
func TestHistoryTellsEachFactOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{records: map[rollout.Step]steprecord.StepRecord{}}
		h := New(s, s, panics.Watch{Log: slog.New(slog.DiscardHandler)})
		status := runstatus.RunStatus{Spec: runspec.Spec{Name: "demo"}}
		say := func(id string, body telemetry.Body) {
			s.facts = append(s.facts, record(id, telemetry.Event{At: time.Now(), Body: body}))
		}
		say("1-0", telemetry.RunChanged{Change: "start"})
		say("2-0", nil)
		say("3-0", telemetry.EpisodeFailed{Code: "timeout"})
		var v View
		for range 3 {
			time.Sleep(2 * time.Second)
			v, _ = h.Of(context.Background(), status, time.Second, time.Second)
		}
		say("4-0", telemetry.TokenRates{OutputTokens: 7})
		time.Sleep(2 * time.Second)
		v, _ = h.Of(context.Background(), status, time.Second, time.Second)
		if f := v.Facts; len(f.Happenings) != 1 || f.Happenings[0].Text != "start" || len(f.Failures) != 1 ||
			len(f.Rates) != 1 || f.Rates[0].Output != 7 {
			t.Errorf("%+v", v.Facts)
		}
	})
}

// Samples are taken once each, of the run its buffer, of the fleet its engines, and what tells of a wait alone is none.
func TestHistoryTakesSamples(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{records: map[rollout.Step]steprecord.StepRecord{}}
		h := New(s, s, panics.Watch{Log: slog.New(slog.DiscardHandler)})
		status := runstatus.RunStatus{Spec: runspec.Spec{Name: "demo"}}
		say := func(id string, run rollout.RunName, body telemetry.Body) {
			s.samples = append(s.samples, record(id, telemetry.Event{At: time.Now(), Run: run, Engine: "a", Body: body}))
		}
		say("1-0", "demo", telemetry.BufferLevel{WindowSec: 2, Target: 4, Counts: steprecord.BufferCounts{Ready: 3}})
		say("2-0", "demo", telemetry.BufferLevel{StarvedSec: 7})
		say("1-1", "", telemetry.EngineSample{Load: enginestate.EngineLoad{Running: 5, KVUsage: 0.5}})
		var v View
		var fleet Facts
		for i := range 3 {
			time.Sleep(2 * time.Second)
			if i == 1 {
				say("3-0", "demo", telemetry.BufferLevel{WindowSec: 2, Target: 4})
			}
			_, _ = h.Of(context.Background(), status, time.Second, time.Second)
			synctest.Wait()
			v, fleet = h.Of(context.Background(), status, time.Second, time.Second)
		}
		if l := v.Facts.Levels; len(l) != 2 || l[0].Ready != 3 || l[0].Target != 4 || len(v.Facts.Loads) > 0 {
			t.Errorf("the run's samples: %+v", v.Facts)
		}
		if l := fleet.Loads; len(l) != 1 || l[0].Engine != "a" || l[0].Running != 5 || len(fleet.Levels) > 0 {
			t.Errorf("the fleet's samples: %+v", fleet)
		}
	})
}
