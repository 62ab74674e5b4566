package diagnosis

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// Severity is whether a report needs somebody.
type Severity string

// The severities, the mildest first.
const (
	SeverityOK    Severity = "ok"
	SeverityNote  Severity = "note"  // something to know, that is not worth a person's time
	SeveritySlow  Severity = "slow"  // a loss that is: the spec's slow_share of a step or more, or nothing is learnt
	SeverityStuck Severity = "stuck" // the run does not go on by itself
)

// slowShare is the bound of a spec that sets none.
const slowShare = 0.1

// Urgent reports whether somebody should look now. It decides `millrace diagnose --exit-code`.
func (r Report) Urgent() bool { return r.Severity == SeveritySlow || r.Severity == SeverityStuck }

// weigh judges how much the first finding matters, by the share of the time that it costs. What an engine costs an hour
// gives a loss its price; 0: not known. A run that goes behind others, as evaluations do, waits by intention.
func (r *Report) weigh(recent *Ledger, spec *runspec.Spec, perEngineHour float64) {
	switch r.Verdict {
	case VerdictHealthy, VerdictNoAnswer:
		r.Severity = SeverityOK
		return
	case VerdictHealed, VerdictWarning:
		r.Severity, r.Brief = SeverityNote, string(r.Verdict)+": "+r.Findings[0].Cause.Words()
		return
	}
	first := r.Findings[0]
	r.Loss = recent.shareOf(first.Cause)
	if sec := r.Regime.StepSec; sec > 0 && first.starved {
		r.Loss = max(r.Loss, 1-r.Regime.ComputeSec/sec)
	} else if sec > 0 && r.Loss == 0 && r.Rise != nil {
		r.Loss = r.Rise.DeltaSec / sec
	}
	r.Severity, r.Brief = SeveritySlow, first.Cause.Words()
	if r.Loss == 0 { // it costs something else than time, or what it costs is not known
		return
	}
	r.Brief += " " + units.Percent(r.Loss)
	if n := len(r.Levels); n > 0 && perEngineHour*r.Levels[n-1].Engines > 0 {
		r.Brief += fmt.Sprintf(", $%s/h", units.Number(r.Loss*perEngineHour*r.Levels[n-1].Engines))
	}
	if r.Loss < cmp.Or(spec.SlowShare, slowShare) || spec.Dispatch.Behind && first.starved {
		r.Severity = SeverityNote
	}
}

// Words is a cause as it is written in a cell or a headline.
func (c CauseName) Words() string { return strings.ReplaceAll(string(c), "_", " ") }
