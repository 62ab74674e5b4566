package runhistory

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// Happening is something that a reader of a chart wants to know of: what, when, and of which sort.
type Happening struct {
	At   time.Time
	Kind HappeningKind
	Text string
	// Routine is what happens in every step when all is well: it is marked, and not told among what is news.
	Routine bool
}

// HappeningKind is the sorts of happenings, which differ in colour.
type HappeningKind string

// The sorts of happenings.
const (
	Published     HappeningKind = "publish"
	EngineChanged HappeningKind = "engine"
	FleetScaled   HappeningKind = "scaling"
	SpecChanged   HappeningKind = "change"
	Failed        HappeningKind = "failure"
)

// Failure is one attempt at a game that failed, or a group that was dropped.
type Failure struct {
	At   time.Time
	Code rollout.Code
}

// Rate is the tokens of one engine and version over a window that ends At.
type Rate struct {
	At            time.Time
	Engine        rollout.EngineID
	Version       rollout.PolicyVersion
	WindowSec     float64
	Input, Output int64
}

// Facts is what happened to a run, or to the fleet, oldest first; only the latest of each are kept.
type Facts struct {
	Happenings []Happening
	Failures   []Failure
	Rates      []Rate
	Levels     []Level
	Loads      []Load
	Scalings   []Scaling
}

// Scaling is a decision about how many engines there are to be.
type Scaling struct {
	At       time.Time
	From, To int
}

// The bounds of Facts.
const (
	mostHappenings = 2_000
	mostFailures   = 20_000
	mostRates      = 20_000
	mostScalings   = 5_000
)

// kindsOfRun and kindsOfFleet are the facts that are read.
func kindsOfRun() []string {
	return []string{telemetry.KindOf(telemetry.PolicyPublished{}), telemetry.KindOf(telemetry.RunChanged{}),
		telemetry.KindOf(telemetry.AlarmChanged{}), telemetry.KindOf(telemetry.EpisodeFailed{}),
		telemetry.KindOf(telemetry.GroupDropped{}), telemetry.KindOf(telemetry.TokenRates{}),
		telemetry.KindOf(telemetry.AdapterChanged{})}
}

func kindsOfFleet() []string {
	return []string{telemetry.KindOf(telemetry.EngineChanged{}), telemetry.KindOf(telemetry.EnginePaced{}),
		telemetry.KindOf(telemetry.FleetScaled{}), telemetry.KindOf(telemetry.FleetMeasured{}),
		telemetry.KindOf(telemetry.ProviderChanged{})}
}

// add takes one more fact. The Facts that were given out before are not touched.
func (f *Facts) add(e telemetry.Event) {
	happened := func(kind HappeningKind, text string) {
		f.Happenings = append(f.Happenings, Happening{At: e.At, Kind: kind, Text: text})
	}
	switch b := e.Body.(type) {
	case telemetry.PolicyPublished:
		text := b.Policy.Adapter + " " + string(b.Policy.State)
		if b.Policy.Reason != "" {
			text += ": " + b.Policy.Reason
		}
		happened(Published, text)
		f.Happenings[len(f.Happenings)-1].Routine = b.Policy.State != runstatus.PolicyRejected && b.Policy.Reason == ""
	case telemetry.RunChanged:
		text := b.Change
		if b.Reason != "" {
			text += ": " + b.Reason
		}
		happened(SpecChanged, text)
	case telemetry.AlarmChanged:
		text := "alarm over: " + string(b.Code)
		if b.Raised {
			text = b.Text
		}
		happened(Failed, text)
	case telemetry.AdapterChanged:
		happened(Failed, "files of "+b.Adapter+" changed: "+b.Reason)
	case telemetry.EpisodeFailed:
		f.Failures = append(f.Failures, Failure{e.At, b.Code})
	case telemetry.GroupDropped:
		f.Failures = append(f.Failures, Failure{e.At, b.Code})
	case telemetry.TokenRates:
		f.Rates = append(f.Rates, Rate{e.At, e.Engine, b.Version, b.WindowSec, b.InputTokens, b.OutputTokens})
	case telemetry.EngineChanged:
		text := string(e.Engine) + " is " + string(b.State)
		if b.Reason != "" {
			text += ": " + b.Reason
		}
		happened(EngineChanged, text)
	case telemetry.EnginePaced:
		text := string(e.Engine) + " keeps up again"
		if b.Slow != "" {
			text = string(e.Engine) + " is slow: " + b.Slow
		}
		happened(EngineChanged, text)
	case telemetry.FleetScaled:
		happened(FleetScaled, fmt.Sprintf("%d engines wanted, were %d: %s", b.To, b.From, b.Reason))
		f.Scalings = append(f.Scalings, Scaling{e.At, b.From, b.To})
	case telemetry.FleetMeasured:
		happened(FleetScaled, b.Text)
	case telemetry.ProviderChanged:
		text := "provider " + b.Provider + " does what it is asked for again"
		if b.Trouble != "" {
			text = "provider " + b.Provider + ": " + b.Trouble
		}
		happened(Failed, text)
	case telemetry.AdapterLoaded, telemetry.Audit, telemetry.BatchClaimed, telemetry.BreakerChanged, telemetry.BufferLevel,
		telemetry.Diagnosed, telemetry.DispatchSample, telemetry.EngineSample, telemetry.EpisodeFinished,
		telemetry.GroupReady, telemetry.RewardVarianceChanged, telemetry.SinkChanged, telemetry.StepCompleted:
		// not read: the step records tell what the charts need of them
	}
}

// bound lets the oldest go.
func (f *Facts) bound() {
	f.Happenings = latest(f.Happenings, mostHappenings)
	f.Failures = latest(f.Failures, mostFailures)
	f.Rates = latest(f.Rates, mostRates)
	f.Scalings = latest(f.Scalings, mostScalings)
}

func latest[T any](all []T, most int) []T {
	if len(all) <= most {
		return all
	}
	return append([]T{}, all[len(all)-most:]...)
}
