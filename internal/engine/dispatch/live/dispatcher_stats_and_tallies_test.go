package live

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

func TestStatsAndSamples(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var events []telemetry.Event
		cfg := Config{
			SampleEvery: 10 * time.Second, Worker: "w1",
			Emit: telemetry.EmitterFunc(func(e telemetry.Event) { events = append(events, e) }),
		}
		r := newRig(t, cfg, 2, &fake{takes: 4 * time.Second})
		var calls []<-chan result
		for i := range 5 {
			calls = append(calls, r.call(t.Context(), turn(name(i), i/2, i)))
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for _, c := range calls {
			<-c
		}
		time.Sleep(time.Minute)
		r.stop()

		want := Tally{
			Usage: rollout.Usage{Requests: 5, InputTokens: 500, OutputTokens: 50, CachedTokens: 300, ExecSec: 20,
				QueueSec: 4 + 4 + 8},
		}
		want.Work = map[rollout.UsagePart]rollout.Usage{{Engine: "a", Adapter: "r-v1"}: want.Usage}
		if got := r.Snapshot().ByRun["r"]; !reflect.DeepEqual(got, want) {
			t.Errorf("run: got %+v, want %+v", got, want)
		}
		if got := r.Snapshot().ByEngine["a"]; got != want.Usage {
			t.Errorf("engine: got %+v, want %+v", got, want.Usage)
		}
		// Two windows with work and one without, each for the run and for the whole; then silence.
		if len(events) != 6 {
			t.Fatalf("%d events: %+v", len(events), events)
		}
		first := telemetry.DispatchSample{WindowSec: 10, InFlight: map[rollout.EngineID]int{"a": 1},
			InputTPS: 40, OutputTPS: 4}
		whole := first
		first.ByVersion = map[rollout.PolicyVersion]telemetry.TokenRate{0: {InputTPS: 40, OutputTPS: 4}}
		if e := events[0]; e.Run != "r" || !reflect.DeepEqual(e.Body, first) {
			t.Errorf("first sample of the run: %+v", e)
		}
		whole.Rejected = map[rollout.Code]int64{}
		if e := events[1]; e.Run != "" || !reflect.DeepEqual(e.Body, whole) {
			t.Errorf("first sample of the whole: %+v", e)
		}
		keys := map[string]bool{}
		for _, e := range events {
			keys[e.Key] = true
		}
		if len(keys) != len(events) {
			t.Errorf("keys repeat: %v", keys)
		}
	})
}

func TestTokensByVersion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		samples := make(chan telemetry.DispatchSample, 8)
		cfg := Config{SampleEvery: 10 * time.Second, Emit: telemetry.EmitterFunc(func(e telemetry.Event) {
			if e.Run == "r" {
				samples <- e.Body.(telemetry.DispatchSample)
			}
		})}
		r := newRig(t, cfg, 8, &fake{takes: 4 * time.Second})
		defer r.stop()
		var calls []<-chan result
		for i, version := range []rollout.PolicyVersion{7, 7, 7, 8} {
			req := turn(name(i), i, 0)
			req.Version = version
			calls = append(calls, r.call(t.Context(), req))
		}
		for _, c := range calls {
			<-c
		}
		want := map[rollout.PolicyVersion]telemetry.TokenRate{7: {InputTPS: 30, OutputTPS: 3},
			8: {InputTPS: 10, OutputTPS: 1}}
		if got := (<-samples).ByVersion; !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if got := (<-samples).ByVersion; len(got) != 0 {
			t.Errorf("a window without tokens has %v", got)
		}
	})
}

func TestVersionsLongUnusedAreForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, Config{}, 8, &fake{takes: time.Second})
		defer r.stop()
		for v := range 4 {
			req := turn(name(v), v, 0)
			req.Version = rollout.PolicyVersion(v)
			<-r.call(t.Context(), req)
			time.Sleep(12 * time.Minute)
		}
		synctest.Wait()
		tally := r.Snapshot().ByRun["r"]
		versions := map[rollout.PolicyVersion]bool{}
		for part := range tally.Work {
			versions[part.Version] = true
		}
		if w := tally.Work; len(w) != 2 || !versions[2] || !versions[3] {
			t.Errorf("work %+v, want that of the latest half hour", w)
		}
		if tally.Usage.Requests != 4 {
			t.Errorf("%d requests of the run, want all 4", tally.Usage.Requests)
		}
	})
}
