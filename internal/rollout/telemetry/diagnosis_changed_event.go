package telemetry

import "github.com/millrace/millrace/internal/rollout"

// Diagnosed reports that the diagnosis of a run says something else than it did.
type Diagnosed struct {
	Verdict string       `json:"verdict"`
	Was     string       `json:"was,omitempty"` // the verdict before; empty: this is the first
	Cause   string       `json:"cause,omitempty"`
	Step    rollout.Step `json:"step"` // the last that was looked at
	Since   rollout.Step `json:"since_step,omitempty"`
	Goodput float64      `json:"goodput"`
	StepSec float64      `json:"step_s"` // what a step takes now
	Text    string       `json:"text"`
}

var diagnosedKind = fact[Diagnosed]("diagnosed")

func (Diagnosed) kind() *kind { return diagnosedKind }

func (b Diagnosed) row(r Row) {
	r["verdict"], r["step"], r["since_step"] = b.Verdict, b.Step, b.Since
	r["goodput"], r["step_s"] = b.Goodput, b.StepSec
	r.text("was", b.Was)
	r.text("cause", b.Cause)
	r.text("text", b.Text)
}
