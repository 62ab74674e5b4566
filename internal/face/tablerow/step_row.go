package tablerow

import (
	"fmt"

	"github.com/millrace/millrace/internal/kit/units"

	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// StepRow is the cells of a step. Cells of completed steps are empty before.
type StepRow struct {
	No                                      string
	Sec, Prefill                            string // Prefill is empty where there was none
	Wait, Load, Reference                   string // the trainer's phases, in seconds
	Train, Publish, Other                   string
	WaitShare                               string
	Ready, Queued, InFlight                 string // of the buffer, at the claim
	Staleness                               string // 1.0+0.5: gathered in flight and in the buffer
	StalenessMax                            string
	Slots, InputTPS, OutputTPS, EqualGroups string
	Missing                                 string // what Redis lost of it; empty: nothing
}

// shortestPrefill is the prefill that is still shown.
const shortestPrefill = 0.05

// RowOfStep makes the cells of a step.
func RowOfStep(r *steprecord.StepRecord) StepRow {
	v := r.Service
	row := StepRow{No: fmt.Sprint(r.Step)}
	switch {
	case r.LostRecord:
		row.Missing = "lost"
		return row
	case r.LostBatch && !r.Done:
		row.Missing = "batch lost"
		return row
	}
	row.Ready, row.Queued, row.InFlight = Seconds(v.ReadyDepth), fmt.Sprint(v.AtClaim.Queued),
		fmt.Sprint(v.AtClaim.InFlight)
	row.Staleness, row.StalenessMax = Staleness(v), fmt.Sprint(v.StalenessMax)
	row.EqualGroups = fmt.Sprintf("%d/%d", v.ZeroVarianceGroups, len(v.Groups))
	if !r.Done { // what the engines did is known when the step is recorded
		row.Sec = "…"
		return row
	}
	phases := r.StepPhases()
	row.Sec, row.Wait, row.Load = Seconds(r.StepSec()), Seconds(phases[steprecord.PhaseWait]),
		Seconds(phases[steprecord.PhaseLoad])
	row.Reference, row.Train = Seconds(phases[steprecord.PhaseRefLogprobs]), Seconds(phases[steprecord.PhaseTrain])
	row.Publish = Seconds(phases[steprecord.PhasePublish])
	row.Other = Seconds(phases[steprecord.PhaseCheckpoint] + phases[steprecord.PhaseOther])
	row.WaitShare = units.Percent(units.Share(phases[steprecord.PhaseWait], r.StepSec()))
	if prefill := r.PrefillSec(); prefill >= shortestPrefill {
		row.Prefill = Seconds(prefill)
	}
	row.Slots, row.InputTPS = units.Percent(v.Fleet.SlotShare), whole(v.Fleet.InputTPS)
	row.OutputTPS = whole(v.Fleet.OutputTPS)
	return row
}

// Staleness is a batch's mean staleness by where it was gathered; as a whole, where that was not recorded.
func Staleness(v steprecord.ServiceView) string {
	if v.StalenessInFlightMean == 0 && v.StalenessInBufferMean == 0 && v.StalenessMean != 0 {
		return fmt.Sprintf("%.1f", v.StalenessMean)
	}
	return fmt.Sprintf("%.1f+%.1f", v.StalenessInFlightMean, v.StalenessInBufferMean)
}
