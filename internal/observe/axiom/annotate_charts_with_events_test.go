package axiom_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/observe/axiom/axiomtest"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

func at(at time.Time, body telemetry.Body) telemetry.Event {
	return telemetry.Event{At: at, Run: "demo", Engine: "gpu-1", Key: fmt.Sprint(at.UnixNano()), Body: body}
}

func published(version rollout.PolicyVersion, state runstatus.PolicyState) telemetry.PolicyPublished {
	return telemetry.PolicyPublished{Policy: runstatus.Policy{Version: version, State: state, Reason: "digest differs"}}
}

// titles is the marks that are there, by the second of a run of the clock.
func titles(fake *axiomtest.Server, begin time.Time) (all []string) {
	for _, a := range fake.Annotations() {
		all = append(all, fmt.Sprintf("%d %s %s", int(a.Time.Sub(begin).Seconds()), a.Type, a.Title))
	}
	slices.SortFunc(all, func(a, b string) int { return strings.Compare(a[:3], b[:3]) })
	return all
}

// TestMarks is what of the delivered events is marked, and how.
func TestMarks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake, d, begin := &axiomtest.Server{Dataset: "millrace"}, deploy(t), time.Now()
		after := func(sec int) time.Time { return begin.Add(time.Duration(sec) * time.Second) }
		for _, e := range []telemetry.Event{
			at(after(100), telemetry.RunChanged{State: runstatus.RunRunning, Change: "start"}),
			at(after(101), telemetry.GroupDropped{Code: "stale"}),
			at(after(102), published(1, runstatus.PolicyLoading)),
			at(after(103), published(1, runstatus.PolicyServing)),
			at(after(130), published(2, runstatus.PolicyServing)),
			at(after(140), telemetry.EngineChanged{State: enginestate.EngineLost, Reason: "refused"}),
			at(after(300), published(4, runstatus.PolicyServing)),
			at(after(400), published(5, runstatus.PolicyRejected)),
			at(after(420), telemetry.RunChanged{State: runstatus.RunRunning, Change: "set buffer.depth=4 (was 2)"}),
			at(after(440), telemetry.Diagnosed{Verdict: "problem", Was: "healthy", Cause: "engine_lost"}),
		} {
			d.events.Emit(e)
		}
		d.server("a", fake, nil)
		pass(time.Minute)
		if got, want := titles(fake, begin), []string{
			"100 run demo: start",
			"103 publication demo: version 1 serves",
			"140 engine gpu-1: lost",
			"300 publication demo: version 4 serves",
			"400 publication demo: version 5 was rejected",
			"420 run demo: set buffer.depth=4 (was 2)",
			"440 verdict demo: problem: engine_lost (was healthy)",
		}; !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		for _, a := range fake.Annotations() {
			if !strings.Contains(a.Description, "event_id demo/") {
				t.Errorf("%+v", a)
			}
		}
	})
}

// TestMarksInAnOutage writes each mark once, also when Axiom does not answer for a while.
func TestMarksInAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake, d := &axiomtest.Server{Dataset: "millrace"}, deploy(t)
		d.server("a", fake, nil)
		d.events.Emit(at(time.Now(), telemetry.EngineChanged{State: enginestate.EngineReady}))
		pass(time.Minute)
		if err := fake.Switch("503-text", true); err != nil {
			t.Fatal(err)
		}
		d.events.Emit(at(time.Now(), telemetry.EngineChanged{State: enginestate.EngineLost}))
		pass(10 * time.Minute)
		if n := len(fake.Annotations()); n != 1 {
			t.Errorf("%d annotations in an outage", n)
		}
		if err := fake.Switch("503-text", false); err != nil {
			t.Fatal(err)
		}
		pass(5 * time.Minute)
		if n := len(fake.Annotations()); n != 2 || d.events.backlog() != 0 {
			t.Errorf("%d annotations after an outage, %d events wait", n, d.events.backlog())
		}
	})
}

// TestTokenThatMayOnlyIngest costs a line in the log, and holds nothing back.
func TestTokenThatMayOnlyIngest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake, d := &axiomtest.Server{Dataset: "millrace", Permissions: []string{"ingest|create"}}, deploy(t)
		d.server("a", fake, nil)
		for range 3 {
			d.events.Emit(at(time.Now(), telemetry.EngineChanged{State: enginestate.EngineReady}))
			pass(time.Minute)
		}
		log := strings.Join(d.log.lines(), "\n")
		if n := strings.Count(log, "annotations: create"); n != 1 || d.events.backlog() != 0 {
			t.Errorf("said %d times, %d events wait: %s", n, d.events.backlog(), log)
		}
	})
}
