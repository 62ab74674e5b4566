package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/kit/termtext"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

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
