package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/kit/termtext"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// quietFor is the least time between two lines about the same step.
const quietFor = 4 * time.Second

// Watch writes a run's progress to w, a line when something changes, until the run is over, however long the service
// does not answer meanwhile. It returns the last status.
func (c Client) Watch(ctx context.Context, run rollout.RunName, w io.Writer) (runstatus.RunStatus, error) {
	s := &session{Deps: Deps{Stdout: w, Stderr: w}}
	return s.watch(ctx, c, run, math.MaxInt64)
}

func (s *session) watch(
	ctx context.Context, c Client, run rollout.RunName, most time.Duration,
) (last runstatus.RunStatus, err error) {
	p := &progress{}
	err = s.poll(ctx, pollEvery, s.outage(most), func(ctx context.Context) (bool, error) {
		v, a, err := c.run(ctx, run)
		if err != nil {
			return false, err
		}
		last = v.RunStatus
		if s.format == "json" || s.format == "ndjson" {
			err := s.writeLine(a.Body)
			return err != nil || v.State.Over(), err
		}
		if err := p.readLast(ctx, c, &v); err != nil {
			return true, err
		}
		if line := p.see(&v, s.now()); line != "" {
			fmt.Fprintln(s.Stdout, termtext.Line(line))
		}
		return v.State.Over(), nil
	})
	return last, err
}

// progress is the state of a watch.
type progress struct {
	shown string // the change shown last
	step  rollout.Step
	said  time.Time
	last  *steprecord.StepRecord
}

// readLast reads the last step's record when there is a new one.
func (p *progress) readLast(ctx context.Context, c Client, v *tablerow.Run) error {
	if done := v.NextStep - 1; done >= 0 && (p.last == nil || p.last.Step != done) {
		record, _, err := apiclient.Get[steprecord.StepRecord](ctx, c.Client,
			fmt.Sprintf("%s/steps/%d", apiclient.RunPath(v.Name()), done))
		var refused *apiclient.Problem
		if err != nil && !errors.As(err, &refused) {
			return err
		}
		if err == nil {
			p.last = &record
		}
	}
	v.Last = p.last
	return nil
}

// see is the line to write about a run; empty: nothing is new, or it is too soon.
func (p *progress) see(v *tablerow.Run, now time.Time) string {
	change := changeOf(v)
	if v.NextStep == p.step && !v.State.Over() && (change == p.shown || now.Sub(p.said) < quietFor) {
		return ""
	}
	p.shown, p.step, p.said = change, v.NextStep, now
	return progressLine(v, now)
}

// changeOf is the part of a run whose change is worth a new line: counts and figures that move all the time are left
// out.
func changeOf(v *tablerow.Run) string {
	var alarms []rollout.Code
	for _, a := range v.Alarms {
		alarms = append(alarms, rollout.Code(a.Code))
	}
	return fmt.Sprint(v.State, v.Reason, v.NextStep, v.PolicyVersion, v.Buffer.Ready, v.Buffer.Claimed, v.Buffer.Dropped,
		v.TrainerWait() != nil, v.Throttle, v.RewardVariance.Collapsed, alarms)
}

// progressLine is a run on one line: first where it is, then what it has, then what is wrong.
func progressLine(v *tablerow.Run, now time.Time) string {
	b := v.Buffer
	games := b.InFlight * int64(v.Spec.Group.Samples+v.Spec.Group.Oversample) // if each group has all of its games
	parts := []string{
		now.Format(time.TimeOnly),
		fmt.Sprintf("step %d/%d v%d", v.NextStep, v.Spec.Steps, v.PolicyVersion),
		fmt.Sprintf("groups queued %d, in flight %d, ready %d, claimed %d", b.Queued, b.InFlight, b.Ready, b.Claimed),
		fmt.Sprintf("games %d", games),
	}
	if b.Dropped > 0 {
		parts = append(parts, fmt.Sprintf("dropped %d", b.Dropped))
	}
	parts = append(parts, prefillText(v), publishingText(v))
	if f := v.Fleet; f != nil {
		parts = append(parts, fmt.Sprintf("fleet in %.0f out %.0f tok/s", f.InputTPS, f.OutputTPS))
	}
	if v.Last != nil {
		parts = append(parts, fmt.Sprintf("last step %.1f s, stale %d", v.Last.StepSec(), v.Last.Service.StalenessMax))
		if reward, known := v.Last.Trainer.Metrics["reward_mean"]; known {
			parts[len(parts)-1] += fmt.Sprintf(", reward %.3f", reward)
		}
	}
	if n := v.Attempts.Failed; n > 0 {
		parts = append(parts, fmt.Sprintf("attempts failed %d", n))
	}
	parts = append(parts, invalidText(v.Attempts.Counts))
	for _, a := range v.Alarms {
		parts = append(parts, "STUCK "+a.Text)
	}
	parts = append(parts, tablerow.Condition(v.RunStatus))
	if v.State != runstatus.RunRunning {
		parts = append(parts, strings.TrimSuffix(string(v.State)+": "+v.Reason, ": "))
	} else if w := v.TrainerWait(); w != nil {
		parts = append(parts, "trainer waits "+tablerow.Span(now.Sub(w.Since)))
	}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), "  ")
}

// prefillText is how far the buffer is filled before step 0; empty: it is not being filled.
func prefillText(v *tablerow.Run) string {
	want := int64(v.Spec.Buffer.GroupsPerStep)
	if v.Spec.Buffer.Prefill != runspec.PrefillBatch {
		want *= int64(v.Spec.Buffer.Depth)
	}
	if b := v.Buffer; v.State.Over() || v.NextStep > 0 || b.Claimed+b.Completed > 0 || want == 0 || b.Ready >= want {
		return ""
	}
	return fmt.Sprintf("prefill %d of %d groups", v.Buffer.Ready, want)
}

// publishingText is how far the newest version is loaded; empty: none is being loaded.
func publishingText(v *tablerow.Run) string {
	for _, p := range slices.Backward(v.Policies) {
		if p.State == runstatus.PolicyLoading {
			return fmt.Sprintf("v%d loaded by %d engines", p.Version, len(p.LoadSec))
		}
	}
	return ""
}

func lastText(r steprecord.StepRecord) string {
	text := fmt.Sprintf("step %d took %.1f s, %.1f s of it waiting, staleness %d at most", r.Step, r.StepSec(),
		r.StepPhases()[steprecord.PhaseWait], r.Service.StalenessMax)
	if mean := r.Service.StalenessMean; mean > 0 {
		text += fmt.Sprintf(", %.1f in the mean (%s in flight and in the buffer)", mean, tablerow.Staleness(r.Service))
	}
	if prefill := r.PrefillSec(); prefill > 0 {
		text += fmt.Sprintf(", after %.1f s of prefill", prefill)
	}
	return text
}
