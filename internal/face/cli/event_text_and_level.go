package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/kit/termtext"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// eventText says on a line what an event reports.
func eventText(e telemetry.Event) string {
	switch b := e.Body.(type) {
	case telemetry.RunChanged:
		return because(fmt.Sprintf("%s: the run is %s", b.Change, b.State), b.Reason)
	case telemetry.StepCompleted:
		return lastText(b.Record)
	case telemetry.BatchClaimed:
		return fmt.Sprintf("step %d: batch formed after %.1f s of waiting; %d ready, %d in flight, %d queued",
			b.Step, b.StarvedSec,
			b.Counts.Ready, b.Counts.InFlight, b.Counts.Queued)
	case telemetry.RewardVarianceChanged:
		return rewardVarianceText(b.RewardVariance)
	case telemetry.AlarmChanged:
		if !b.Raised {
			return fmt.Sprintf("%s is over", b.Code)
		}
		return because(b.Text, b.Advice)
	case telemetry.Diagnosed:
		if b.Cause != "" {
			return fmt.Sprintf("%s (%s): %s", b.Verdict, b.Cause, b.Text)
		}
		return fmt.Sprintf("%s: %s", b.Verdict, b.Text)
	case telemetry.GroupReady:
		return fmt.Sprintf("%d: %d trajectories, oldest version v%d, %d games failed%s", b.Group.Seq, b.Trajectories,
			b.Group.MinVersion, b.Failed, zeroVarianceText(b.Group))
	case telemetry.GroupDropped:
		return fmt.Sprintf("%d: %s", b.Seq, b.Code)
	case telemetry.EpisodeFinished:
		return because(fmt.Sprintf("%d/%d: %d phases in %.1f s, %d requests, attempt %d", b.Ref.Seq, b.Ref.Sample, b.Phases,
			b.WallSec, b.Usage.Requests, b.Attempts),
			invalidText(b.Counts))
	case telemetry.EpisodeFailed:
		then := "to be tried again"
		if b.Final {
			then = "given up"
		}
		return fmt.Sprintf("%d/%d: %s, attempt %d, %s: %s", b.Ref.Seq, b.Ref.Sample, b.Code, b.Attempt, then, b.Failure)
	case telemetry.AdapterLoaded:
		return because(fmt.Sprintf("%s on %s in %.2f s", b.Adapter, e.Engine, b.Sec), b.Failure)
	case telemetry.PolicyPublished:
		return because(fmt.Sprintf("v%d is %s", b.Policy.Version, b.Policy.State), b.Policy.Reason)
	case telemetry.BufferLevel:
		c := b.Counts
		return fmt.Sprintf("%d queued, %d in flight, %d ready, %d claimed; the trainer waited %.1f of %.1f s", c.Queued,
			c.InFlight, c.Ready, c.Claimed,
			b.StarvedSec, b.WindowSec)
	case telemetry.TokenRates:
		return fmt.Sprintf("%s on %s: %d requests, %d tokens in, %d out in %.0f s", b.Adapter, e.Engine, b.Requests,
			b.InputTokens, b.OutputTokens, b.WindowSec)
	case telemetry.DispatchSample:
		return fmt.Sprintf("%d requests queued, in %.0f tok/s, out %.0f tok/s", b.Queued, b.InputTPS, b.OutputTPS)
	case telemetry.SinkChanged:
		return because(because(fmt.Sprintf("%s is %s", b.Sink, b.State), b.Reason), b.Advice)
	case telemetry.FleetScaled:
		return because(fmt.Sprintf("decision %d: %d engines wanted, were %d", b.Decision, b.To, b.From), b.Reason)
	case telemetry.FleetMeasured:
		return fmt.Sprintf("decision %d: %s", b.Decision, b.Text)
	case telemetry.ProviderChanged:
		if b.Trouble == "" {
			return fmt.Sprintf("provider %s does what it is asked for again", b.Provider)
		}
		return because(fmt.Sprintf("provider %s does not do what it is asked for", b.Provider), b.Trouble)
	case telemetry.Audit, telemetry.AdapterChanged, telemetry.EngineChanged, telemetry.EnginePaced,
		telemetry.BreakerChanged, telemetry.EngineSample: // their fields say it
	}
	return fieldsText(telemetry.Flat(e))
}

// because is a text, with what there is to say about it.
func because(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + "; " + reason
}

func zeroVarianceText(g steprecord.GroupView) string {
	if g.ZeroVariance {
		return ", equal rewards"
	}
	return ""
}

// fieldsText is an event's fields as they are, without those that every event has.
func fieldsText(row telemetry.Row) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(row)) {
		if name != "kind" && name != "_time" && name != "event_id" && name != "run_id" {
			parts = append(parts, fmt.Sprintf("%s=%v", name, row[name]))
		}
	}
	return strings.Join(parts, " ")
}

// level is the importance of an event to a person who watches a run.
type level int

const (
	levelInfo level = iota
	levelWarn
	levelError
)

var levelNames = []string{"info", "warn", "error"}

func (l level) String() string { return levelNames[l] }

func parseLevel(name string) (level, error) {
	if at := slices.Index(levelNames, strings.ToLower(name)); at >= 0 {
		return level(at), nil
	}
	return 0, Usage("--level %s: use one of %s", name, strings.Join(levelNames, ", "))
}

// levelOf is an error where something is lost or stands still, and a warning where something was tried again, dropped
// or refused.
func levelOf(e telemetry.Event) level {
	when := func(is bool, l level) level {
		if is {
			return l
		}
		return levelInfo
	}
	switch b := e.Body.(type) {
	case telemetry.EpisodeFailed:
		if b.Code == rollout.CodeCancelled {
			return levelInfo
		}
		return max(levelWarn, when(b.Final, levelError))
	case telemetry.AlarmChanged:
		return when(b.Raised, levelError)
	case telemetry.RunChanged:
		return when(b.State == runstatus.RunFailed || b.State == runstatus.RunLost, levelError)
	case telemetry.PolicyPublished:
		return when(b.Policy.State == runstatus.PolicyRejected, levelError)
	case telemetry.AdapterLoaded:
		return when(b.Failure != "", levelWarn)
	case telemetry.GroupDropped:
		return when(b.Code != rollout.CodeShrunk, levelWarn)
	case telemetry.RewardVarianceChanged:
		return when(b.RewardVariance.Collapsed, levelWarn)
	case telemetry.EngineChanged:
		return when(b.State == enginestate.EngineLost || b.State == enginestate.EngineQuarantined, levelWarn)
	case telemetry.BreakerChanged:
		return when(b.Open, levelWarn)
	case telemetry.EnginePaced:
		return when(b.Slow != "", levelWarn)
	case telemetry.SinkChanged:
		return when(b.Reason != "", levelWarn)
	case telemetry.Diagnosed:
		return when(b.Cause != "", levelWarn)
	case telemetry.Audit:
		return when(b.Status >= 400, levelWarn)
	case telemetry.ProviderChanged:
		return when(b.Trouble != "", levelError)
	case telemetry.AdapterChanged, telemetry.BatchClaimed, telemetry.BufferLevel, telemetry.DispatchSample,
		telemetry.EngineSample, telemetry.EpisodeFinished, telemetry.FleetMeasured, telemetry.FleetScaled,
		telemetry.GroupReady, telemetry.StepCompleted,
		telemetry.TokenRates:
	}
	return levelInfo
}

// eventStep is the step that an event is of; false: of none, or it does not say.
func eventStep(e telemetry.Event) (rollout.Step, bool) {
	if b, is := e.Body.(telemetry.StepCompleted); is {
		return b.Record.Step, true
	}
	if b, is := e.Body.(telemetry.BatchClaimed); is {
		return b.Step, true
	}
	if b, is := e.Body.(telemetry.BufferLevel); is && b.Step != nil {
		return *b.Step, true
	}
	return 0, false
}

// eventLine is an event as a line of a log, with its run where that is not known anyway.
func eventLine(e event, withRun bool) string {
	at, text, l := "-", termtext.Line(string(e.Data)), levelInfo // of a kind that another version of the program knows
	if known, err := telemetry.Decode(e.Data); err == nil {
		at, text, l = known.At.Local().Format(time.DateTime), termtext.Line(eventText(known)), levelOf(known)
	}
	run := ""
	if withRun {
		run = fmt.Sprintf("  %-12s", cmp.Or(e.Run, "(fleet)"))
	}
	return strings.TrimRight(fmt.Sprintf("%-19s  %-5s%s  %-16s  %s", at, strings.ToUpper(l.String()), run, e.Kind, text),
		" ")
}
