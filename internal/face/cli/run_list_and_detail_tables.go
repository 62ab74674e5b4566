package cli

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/kit/table"

	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// runsTable lists runs, each with the first condition of it that needs somebody.
func runsTable(runs []runstatus.RunStatus, troubles []api.Trouble, now time.Time) *table.Table {
	t := table.New(table.Left("RUN"), table.Left("STATE"), table.Right("STEP"), table.Right("POLICY"),
		table.Right("DEPTH"), table.Right("GROUPS/STEP"), table.Right("OUTSTANDING"), table.Right("STARTED"),
		table.Left("REASON"))
	for _, status := range runs {
		r := tablerow.RowOfRun(&tablerow.Run{RunView: api.RunView{RunStatus: status}})
		if !status.DeletesAt.IsZero() {
			r.Note = strings.TrimPrefix(r.Note+"; deletes in "+tablerow.Span(status.DeletesAt.Sub(now)), "; ")
		}
		of := func(t api.Trouble) bool { return t.Run == status.Spec.Name }
		if i := slices.IndexFunc(troubles, of); i >= 0 && !status.State.Over() {
			r.Note = troubles[i].What
		}
		t.Row(string(status.Spec.Name), r.State, r.Step, r.Policy, r.Depth, r.GroupsPerStep, r.Outstanding,
			tablerow.Ago(status.StartedAt, now), r.Note)
	}
	return t
}

// showRun writes what is wrong with a run, then the run as names and values, then its losses, policies and waits.
func (s *session) showRun(v *tablerow.Run) error {
	s.showAlarms(v.Alarms)
	if err := s.write(s.runTable(v)); err != nil {
		return err
	}
	if err := s.showDepartures(v.Departures); err != nil {
		return err
	}
	if err := s.showFailures(v); err != nil {
		return err
	}
	return s.showLists(v)
}

// runTable is a run, a line for each thing that is known of it.
func (s *session) runTable(v *tablerow.Run) *table.Table {
	t := table.New(table.Left(""), table.Left(""))
	row := func(name, text string) {
		if text != "" {
			t.Row(name, text)
		}
	}
	state := string(v.State)
	if v.Reason != "" {
		state += ": " + v.Reason
	}
	t.Row("run", string(v.Spec.Name))
	t.Row("state", state)
	t.Row("started", v.StartedAt.Format(time.RFC3339)+", "+tablerow.Ago(v.StartedAt, s.now()))
	if !v.EndedAt.IsZero() {
		t.Row("ended", v.EndedAt.Format(time.RFC3339))
	}
	if !v.DeletesAt.IsZero() {
		t.Row("deleted on", v.DeletesAt.Format(time.RFC3339)+", at the end of its retention")
	}
	t.Row("model", v.Spec.Model)
	t.Row("environment", v.Spec.Environment.Kind)
	t.Row("step", fmt.Sprintf("%d of %d", v.NextStep, v.Spec.Steps))
	t.Row("policy", fmt.Sprintf("v%d", v.PolicyVersion))
	t.Row("buffer", bufferText(v.Spec))
	row("group", groupText(v.Spec.Group))
	t.Row("groups", groupsText(v))
	t.Row("stored", storedText(v))
	row("throttle", throttleText(v))
	row("variance", rewardVarianceText(v.RewardVariance))
	row("rolled back", rollbackText(v.RunStatus, s.now()))
	row("attempts", attemptsText(v.Attempts))
	for _, c := range countersOf(v.Attempts.Counts) {
		t.Row(c.what, c.text)
	}
	for _, code := range slices.Sorted(maps.Keys(v.Failures)) {
		t.Row("given up", fmt.Sprintf("%d groups: %s", v.Failures[code], code))
	}
	if v.Fleet != nil {
		t.Row("fleet", fleetText(*v.Fleet))
	}
	for _, sink := range v.Sinks {
		t.Row("events to "+sink.Sink, sinkProblemText(sink, s.now()))
	}
	return t
}

// bufferText is the buffer's shape on a line.
func bufferText(spec runspec.Spec) string {
	b := spec.Buffer
	text := fmt.Sprintf("depth %d x %d groups of %d games, max staleness %d (%s)", b.Depth, b.GroupsPerStep,
		spec.Group.Samples, b.MaxStaleness, b.OnStale)
	if b.Order == runspec.FinishOrder {
		text += ", first finished first"
	}
	return text
}

func (s *session) showLists(v *tablerow.Run) error {
	if len(v.Policies) > 0 {
		fmt.Fprintln(s.Stdout)
		t := table.New(table.Left("POLICY"), table.Left("STATE"), table.Left("ADAPTER"), table.Right("LOAD s"),
			table.Left("PROVEN"), table.Left("PATH"), table.Left("REASON"))
		for _, p := range v.Policies {
			t.Row(fmt.Sprintf("v%d", p.Version), string(p.State), p.Adapter, slowestLoad(p), provenText(p), p.Path,
				p.Reason)
		}
		if err := s.write(t); err != nil {
			return err
		}
	}
	waits := slices.DeleteFunc(slices.Clone(v.Waits), func(w api.Wait) bool { // for what an alarm says above
		return slices.ContainsFunc(v.Alarms, func(a runstatus.Alarm) bool { return strings.HasPrefix(w.Detail, a.Text) })
	})
	if len(waits) == 0 {
		return nil
	}
	fmt.Fprintln(s.Stdout)
	return s.write(waitsTable(waits, s.now()))
}

// slowestLoad is the engine that took longest to load a policy.
func slowestLoad(p runstatus.Policy) string {
	if len(p.LoadSec) == 0 {
		return "-"
	}
	slowest := 0.0
	for _, sec := range p.LoadSec {
		slowest = max(slowest, sec)
	}
	return strconv.FormatFloat(slowest, 'f', 2, 64)
}

// provenText is how many engines have proven a policy with probes, and how far from the trainer's the farthest of their
// logprobs are.
func provenText(p runstatus.Policy) string {
	if len(p.Proofs) == 0 {
		return "-"
	}
	proven, farthest := 0, 0.0
	for _, proof := range p.Proofs {
		if proof.Verdict == enginestate.Proven {
			proven, farthest = proven+1, max(farthest, proof.FromTrainer)
		}
	}
	text := fmt.Sprintf("%d/%d engines", proven, len(p.Proofs))
	if proven > 0 {
		text += fmt.Sprintf(", %.2g nats off", farthest)
	}
	return text
}

func waitsTable(waits []api.Wait, now time.Time) *table.Table {
	t := table.New(table.Left("WAITS FOR"), table.Left("OWNER"), table.Right("SINCE"), table.Right("ENDS IN"),
		table.Left("UNTIL"))
	for _, w := range waits {
		ends := "-"
		if !w.Deadline.IsZero() {
			ends = tablerow.Span(w.Deadline.Sub(now))
		}
		t.Row(w.What, w.Owner, tablerow.Ago(w.Since, now), ends, w.Detail)
	}
	return t
}

// groupsText is the buffer by state: four counts that are never added up into one "depth".
func groupsText(v *tablerow.Run) string {
	b := v.Buffer
	return fmt.Sprintf("%d queued, %d in flight, %d ready (%.1f batches), %d claimed, %d trained on, %d dropped",
		b.Queued, b.InFlight, b.Ready, v.ReadyDepth, b.Claimed, b.Completed, b.Dropped)
}

func fleetText(f steprecord.FleetView) string {
	return fmt.Sprintf("%s, %.0f %% of their slots in use, %.0f requests queued, input %.0f tok/s, output %.0f tok/s",
		readyText(f.Engines), 100*f.SlotShare, f.QueuedRequests, f.InputTPS, f.OutputTPS)
}

// readyText is how many engines were ready in the last minute; not a whole number where some were ready for a part
// of it.
func readyText(engines float64) string {
	if whole := math.Round(engines); math.Abs(engines-whole) < 0.05 {
		return fmt.Sprintf("%.0f ready", whole)
	}
	return fmt.Sprintf("%.1f ready in the mean of the last minute", engines)
}

func count(n int64) string { return strconv.FormatInt(n, 10) }
