package telemetry

import (
	"fmt"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// FleetScaled reports that scaling wants another number of engines, and why.
type FleetScaled struct {
	Decision int    `json:"decision"` // its number, from 1
	From     int    `json:"from_engines"`
	To       int    `json:"to_engines"`
	Code     string `json:"code"`
	Reason   string `json:"reason"`
	// Next is when the next change is possible.
	Next time.Time `json:"next_change_at,omitzero"`
	// Predicted is what the change does to the runs' steps, where that can be said.
	Predicted []ScalingEffect `json:"predicted,omitempty"`
	Cost      float64         `json:"cost,omitempty"` // of the fleet so far, in $; 0: no price is known
}

// ScalingEffect is what a change of the number of engines does to the steps of one run.
type ScalingEffect struct {
	Run          rollout.RunName `json:"run"`
	BeforeSec    float64         `json:"before_s,omitempty"`
	PredictedSec float64         `json:"predicted_s,omitempty"`
	MeasuredSec  float64         `json:"measured_s,omitempty"`
}

var fleetScaledKind = fact[FleetScaled]("fleet_scaled")

func (FleetScaled) kind() *kind { return fleetScaledKind }

func (b FleetScaled) row(r Row) {
	r["decision"], r["from_engines"], r["to_engines"], r["code"] = b.Decision, b.From, b.To, b.Code
	r["cost_usd"] = b.Cost
	r.text("reason", b.Reason)
	r.effects(b.Predicted)
}

// FleetMeasured reports what an earlier decision did to steps.
type FleetMeasured struct {
	Decision int             `json:"decision"`
	From     int             `json:"from_engines"`
	To       int             `json:"to_engines"`
	Effects  []ScalingEffect `json:"effects"`
	Text     string          `json:"text"`
	Cost     float64         `json:"cost,omitempty"`
}

var fleetMeasuredKind = fact[FleetMeasured]("fleet_measured")

func (FleetMeasured) kind() *kind { return fleetMeasuredKind }

func (b FleetMeasured) row(r Row) {
	r["decision"], r["from_engines"], r["to_engines"] = b.Decision, b.From, b.To
	r["cost_usd"] = b.Cost
	r.text("text", b.Text)
	r.effects(b.Effects)
}

// ProviderChanged reports that the provider of engines does not do what it is asked for, or does so again.
type ProviderChanged struct {
	Provider string `json:"provider"`
	Trouble  string `json:"trouble,omitempty"` // what it said; empty: there is none any more
}

var providerChangedKind = fact[ProviderChanged]("provider_changed")

func (ProviderChanged) kind() *kind { return providerChangedKind }

func (b ProviderChanged) row(r Row) {
	r["provider"], r["in_trouble"] = b.Provider, b.Trouble != ""
	r.text("reason", b.Trouble)
}

// effects tells of all runs in words, and of the first, which has the highest priority, in numbers.
func (r Row) effects(all []ScalingEffect) {
	var texts []string
	for i, e := range all {
		if i == 0 {
			r["before_step_s"], r["predicted_step_s"], r["measured_step_s"] = e.BeforeSec, e.PredictedSec, e.MeasuredSec
		}
		texts = append(texts, e.Text())
	}
	r.text("effects", strings.Join(texts, "; "))
}

// Text says the effect in words.
func (e ScalingEffect) Text() string {
	text := fmt.Sprintf("%s: a step of", e.Run)
	if e.BeforeSec > 0 {
		text += fmt.Sprintf(" %.3g s before,", e.BeforeSec)
	}
	if e.PredictedSec > 0 {
		text += fmt.Sprintf(" %.3g s predicted,", e.PredictedSec)
	}
	if e.MeasuredSec > 0 {
		text += fmt.Sprintf(" %.3g s measured,", e.MeasuredSec)
	}
	return strings.TrimSuffix(text, ",")
}
