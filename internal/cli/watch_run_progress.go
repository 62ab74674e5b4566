package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/apiclient"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/termtext"
)

const (
	// pollEvery is how often a watched run is asked about.
	pollEvery = time.Second
	// patience is how long a server may be unavailable before a watcher gives up: it may be restarting.
	patience = 30 * time.Second
	// quietFor is the least time between two lines of a log about the same step.
	quietFor = 4 * time.Second
)

// Watch shows a run's progress on w until the run is over: a panel that is painted over on a
// terminal, and a line per change elsewhere. It returns the last status.
func (c Client) Watch(ctx context.Context, run rollout.RunName, w io.Writer) (rollout.RunStatus, error) {
	s := &session{Deps: Deps{Stdout: w}}
	return s.watch(ctx, c, run, w)
}

func (s *session) watch(ctx context.Context, c Client, run rollout.RunName, w io.Writer) (rollout.RunStatus, error) {
	p := &progress{w: w, repaint: terminal(w)}
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	server := s.outage(patience)
	server.tell = func(text string) { s.note(p, text) }
	for {
		v, a, err := c.run(ctx, run)
		if err == nil {
			if err := s.see(ctx, c, p, v, a); err != nil {
				return v.RunStatus, err
			}
			if v.State.Over() {
				return v.RunStatus, nil
			}
		}
		if err := server.after(err); err != nil {
			return rollout.RunStatus{}, err
		}
		if err := tick(ctx, ticker); err != nil {
			return rollout.RunStatus{}, err
		}
	}
}

// see shows a run: as a line of JSON, or as the progress since the view before.
func (s *session) see(ctx context.Context, c Client, p *progress, v runView, a apiclient.Answer) error {
	if !s.inLines() {
		return p.see(ctx, c, v, s.now())
	}
	var line bytes.Buffer
	if err := json.Compact(&line, a.Body); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	_, err := p.w.Write(append(escapeControls(line.Bytes()), '\n'))
	return err
}

// note says something between two views, where no program reads them.
func (s *session) note(p *progress, text string) {
	if s.inLines() {
		s.say("%s", text)
		return
	}
	p.note(text)
}

// inLines reports whether every view is to be a line of JSON.
func (s *session) inLines() bool { return s.format == "json" || s.format == "ndjson" }

// progress is what a watcher has seen and shown so far.
type progress struct {
	w       io.Writer
	repaint bool
	painted int    // lines on the screen to paint over
	shown   string // the change shown last
	step    rollout.Step
	said    time.Time
	last    rollout.StepRecord
	hasLast bool
}

// see shows a run. The last step's record is asked for when there is a new one.
func (p *progress) see(ctx context.Context, c Client, v runView, now time.Time) error {
	if done := v.NextStep - 1; done >= 0 && (!p.hasLast || p.last.Step != done) {
		record, _, err := apiclient.Get[rollout.StepRecord](ctx, c.Client,
			fmt.Sprintf("%s/steps/%d", apiclient.RunPath(v.Spec.Name), done))
		var refused *apiclient.Problem
		if err != nil && !errors.As(err, &refused) {
			return err
		}
		if err == nil {
			p.last, p.hasLast = record, true
		}
	}
	if p.repaint {
		p.paint(p.panel(v, now))
		return nil
	}
	change := changeOf(v)
	if major := v.NextStep != p.step || v.State.Over(); major || change != p.shown && now.Sub(p.said) >= quietFor {
		p.shown, p.step, p.said = change, v.NextStep, now
		fmt.Fprintln(p.w, termtext.Line(p.line(v, now)))
	}
	return nil
}

// note says something between two views of the run.
func (p *progress) note(text string) {
	p.painted = 0
	fmt.Fprintln(p.w, text)
}

// paint writes the lines over those of the last time.
func (p *progress) paint(lines []string) {
	var b strings.Builder
	// a line that is too long for the screen is cut, not wrapped, or the lines could not be counted
	b.WriteString("\x1b[?7l")
	if p.painted > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", p.painted)
	}
	for _, line := range lines {
		b.WriteString(termtext.Line(line) + "\x1b[K\n") // erase what the last line leaves over
	}
	b.WriteString("\x1b[J\x1b[?7h") // and lines that there are no more
	p.painted = len(lines)
	_, _ = io.WriteString(p.w, b.String()) // a screen that is gone is noticed by the signal that comes with it
}

// changeOf is what makes a new line worth writing; counts that move all the time are left out.
func changeOf(v runView) string {
	return fmt.Sprint(v.State, v.Reason, v.NextStep, v.PolicyVersion, v.Buffer.Ready, v.Buffer.Claimed, v.Buffer.Dropped,
		trainerWait(v) != nil, v.Throttle, v.RewardVariance.Collapsed, alarmCodes(v.Alarms))
}

// trainerWait is the trainer waiting for a batch, or nil.
func trainerWait(v runView) *wait {
	for i := range v.Waits {
		if v.Waits[i].What == "batch" {
			return &v.Waits[i]
		}
	}
	return nil
}

func (p *progress) panel(v runView, now time.Time) []string {
	b := v.Buffer
	state := string(v.State)
	if v.Reason != "" {
		state += ": " + v.Reason
	}
	lines := []string{
		fmt.Sprintf("run      %s  %s  %s", v.Spec.Name, state, strings.TrimSuffix(ago(v.StartedAt, now), " ago")),
		fmt.Sprintf("step     %d of %d, policy v%d", v.NextStep, v.Spec.Steps, v.PolicyVersion),
		fmt.Sprintf("groups   %d queued  %d in flight  %d ready (%.1f batches)  %d claimed  %d trained on  %d dropped",
			b.Queued, b.InFlight, b.Ready, v.ReadyDepth, b.Claimed, b.Completed, b.Dropped),
		fmt.Sprintf("games    %d in flight", games(v)),
	}
	if f := v.Fleet; f != nil {
		lines = append(lines, fmt.Sprintf("engines  %.0f ready  %.0f %% of slots in use  %.0f queued  in %.0f tok/s  "+
			"out %.0f tok/s",
			f.Engines, 100*f.SlotShare, f.QueuedRequests, f.InputTPS, f.OutputTPS))
	}
	if !v.State.Over() {
		lines = append(lines, "trainer  "+trainerText(v, now))
	}
	if v.Attempts.Failed > 0 {
		lines = append(lines, "attempts "+attemptsText(v.Attempts))
	}
	if text := invalidText(v.Attempts.Counts); text != "" {
		lines = append(lines, "answers  "+strings.TrimPrefix(text, "answers "))
	}
	for _, a := range v.Alarms {
		lines = append(lines, "PROBLEM  "+a.Text+"; "+a.Advice)
	}
	for _, text := range []string{prefillText(v), publishingText(v)} {
		if text != "" {
			lines = append(lines, text)
		}
	}
	if text := throttleText(v); text != "" {
		lines = append(lines, "throttle "+text)
	}
	if v.RewardVariance.Collapsed {
		lines = append(lines, "variance "+rewardVarianceText(v.RewardVariance))
	}
	if p.hasLast {
		lines = append(lines, fmt.Sprintf("last     %s", lastText(p.last)))
	}
	return lines
}

// games is the games in flight, taking every group in flight to have all of its games.
func games(v runView) int64 {
	return v.Buffer.InFlight * int64(v.Spec.Group.Samples+v.Spec.Group.Oversample)
}

func trainerText(v runView, now time.Time) string {
	if w := trainerWait(v); w != nil {
		return fmt.Sprintf("waits %s for a batch: %s", span(now.Sub(w.Since)), w.Detail)
	}
	if v.Buffer.Claimed > 0 {
		return fmt.Sprintf("works on step %d", v.NextStep)
	}
	return "is not heard of"
}

func lastText(r rollout.StepRecord) string {
	text := fmt.Sprintf("step %d took %.1f s, %.1f s of it waiting, staleness %d at most", r.Step, r.StepSec(),
		r.StepPhases()[rollout.PhaseWait], r.Service.StalenessMax)
	if mean := r.Service.StalenessMean; mean > 0 {
		text += fmt.Sprintf(", %.1f in the mean (%s in flight and in the buffer)", mean, staleText(r.Service))
	}
	if prefill := r.PrefillSec(); prefill > 0 {
		text += fmt.Sprintf(", after %.1f s of prefill", prefill)
	}
	return text
}

// line is the panel on one line, for logs.
func (p *progress) line(v runView, now time.Time) string {
	b := v.Buffer
	parts := []string{
		now.Format(time.TimeOnly),
		fmt.Sprintf("step %d/%d v%d", v.NextStep, v.Spec.Steps, v.PolicyVersion),
		fmt.Sprintf("groups queued %d, in flight %d, ready %d, claimed %d", b.Queued, b.InFlight, b.Ready, b.Claimed),
		fmt.Sprintf("games %d", games(v)),
	}
	if b.Dropped > 0 {
		parts = append(parts, fmt.Sprintf("dropped %d", b.Dropped))
	}
	for _, text := range []string{prefillText(v), publishingText(v)} {
		if text != "" {
			parts = append(parts, strings.Join(strings.Fields(text), " "))
		}
	}
	if f := v.Fleet; f != nil {
		parts = append(parts, fmt.Sprintf("in %.0f out %.0f tok/s", f.InputTPS, f.OutputTPS))
	}
	if p.hasLast {
		parts = append(parts, fmt.Sprintf("stale %d", p.last.Service.StalenessMax))
	}
	if n := v.Attempts.Failed; n > 0 {
		parts = append(parts, fmt.Sprintf("attempts failed %d", n))
	}
	if text := invalidText(v.Attempts.Counts); text != "" {
		parts = append(parts, text)
	}
	if text := alarmText(v.Alarms); text != "" {
		parts = append(parts, "PROBLEM "+text)
	}
	if condition := conditionText(v.RunStatus); condition != "" {
		parts = append(parts, condition)
	}
	if v.State != rollout.RunRunning {
		parts = append(parts, strings.TrimSuffix(string(v.State)+": "+v.Reason, ": "))
	} else if w := trainerWait(v); w != nil {
		parts = append(parts, "trainer waits "+span(now.Sub(w.Since)))
	}
	return strings.Join(parts, "  ")
}
