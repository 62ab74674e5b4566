package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/table"
)

func (s *session) stepsCommand() *cobra.Command {
	var from int64
	cmd := s.onRun("steps RUN", "List the steps with their phases, and the buffer and engines as each found "+
		"them", exactly(1),
		func(ctx context.Context, c Client, run rollout.RunName, _ []string) error {
			if from < 0 {
				return usage("--from %d: steps are numbered from 0", from)
			}
			steps, err := c.steps(ctx, run, rollout.Step(from))
			if err != nil {
				return err
			}
			document, err := json.Marshal(map[string]any{"steps": steps})
			if err != nil {
				return fmt.Errorf("write steps: %w", err)
			}
			switch {
			case len(steps) > 0:
			case from > 0:
				s.say("no step from %d on was claimed yet", from)
			default:
				s.say("no step was claimed yet")
			}
			return s.show(document, func() error { return s.write(stepsTable(steps)) })
		})
	cmd.Long = `List the steps of a run: the trainer's phases in seconds, and what the service saw when the batch was claimed.

The wait for the first batch fills the buffer; it stands in a line of its own, so that step 0 can be compared with the
others. READY is in batches, QUEUED and FLYING are groups, at the claim. STALE is the groups' mean age
in policy versions, 1.0+0.5 being 1.0 gathered in flight and 0.5 in the buffer. EQUAL, if there is one, is the groups whose rewards were
all equal. BUSY is the share of the engines' request slots in use since the claim before.`
	cmd.Flags().Int64Var(&from, "from", 0, "first step")
	return cmd
}

// Steps writes the table of a run's steps.
func (c Client) Steps(ctx context.Context, run rollout.RunName, w io.Writer) error {
	steps, err := c.steps(ctx, run, 0)
	if err != nil {
		return err
	}
	return stepsTable(steps).Write(w, 0)
}

// WriteSteps writes the table of steps that no server has, such as simulated ones.
func WriteSteps(w io.Writer, steps []rollout.StepRecord) error { return stepsTable(steps).Write(w, 0) }

func stepsTable(steps []rollout.StepRecord) *table.Table {
	columns := []table.Column{table.Right("STEP"), table.Right("WALL s"), table.Right("WAIT"), table.Right("LOAD"),
		table.Right("REF"),
		table.Right("TRAIN"), table.Right("PUBL"), table.Right("OTHER"), table.Right("READY"), table.Right("QUEUED"),
		table.Right("FLYING"),
		table.Right("STALE"), table.Right("BUSY"), table.Right("IN tok/s"), table.Right("OUT tok/s")}
	zeroVariance := slices.ContainsFunc(steps, func(r rollout.StepRecord) bool { return r.Service.ZeroVarianceGroups > 0 })
	if zeroVariance {
		columns = append(columns, table.Right("EQUAL"))
	}
	t := table.New(columns...)
	for _, r := range steps {
		rows := stepRows(r)
		if last := len(rows) - 1; zeroVariance {
			rows[last] = append(rows[last], slices.Repeat([]string{""}, len(columns)-1-len(rows[last]))...)
			rows[last] = append(rows[last], fmt.Sprintf("%d/%d", r.Service.ZeroVarianceGroups, len(r.Service.Groups)))
		}
		for _, row := range rows {
			t.Row(row...)
		}
	}
	return t
}

// stepRows is a step's line, led by the prefill's before step 0.
func stepRows(r rollout.StepRecord) [][]string {
	v := r.Service
	name := strconv.FormatInt(int64(r.Step), 10)
	seen := []string{fmt.Sprintf("%.1f", v.ReadyDepth), count(v.AtClaim.Queued), count(v.AtClaim.InFlight), staleText(v)}
	if r.LostRecord || r.LostBatch && !r.Done { // Redis came back without it
		what := "batch lost"
		if r.LostRecord {
			what = "lost"
		}
		return [][]string{{name, what}}
	}
	if !r.Done { // what the engines did is known when the step is recorded
		return [][]string{append([]string{name, "…", "", "", "", "", "", ""}, seen...)}
	}
	seen = append(seen, fmt.Sprintf("%.0f %%", 100*v.Fleet.SlotShare), fmt.Sprintf("%.0f", v.Fleet.InputTPS),
		fmt.Sprintf("%.0f", v.Fleet.OutputTPS))
	var rows [][]string
	if prefill := r.PrefillSec(); prefill >= 0.05 { // less is shown as nothing
		rows = append(rows, []string{"prefill", sec(prefill), sec(prefill)})
	}
	phases := r.StepPhases()
	line := []string{name, sec(r.StepSec()), sec(phases[rollout.PhaseWait]), sec(phases[rollout.PhaseLoad]),
		sec(phases[rollout.PhaseRefLogprobs]),
		sec(phases[rollout.PhaseTrain]), sec(phases[rollout.PhasePublish]),
		sec(phases[rollout.PhaseCheckpoint] + phases[rollout.PhaseOther])}
	return append(rows, append(line, seen...))
}

// staleText is the batch's mean staleness by where it was gathered; as a whole, where that was not recorded.
func staleText(v rollout.ServiceView) string {
	if v.StalenessInFlightMean == 0 && v.StalenessInBufferMean == 0 && v.StalenessMean != 0 {
		return fmt.Sprintf("%.1f", v.StalenessMean)
	}
	return fmt.Sprintf("%.1f+%.1f", v.StalenessInFlightMean, v.StalenessInBufferMean)
}

// sec writes seconds so that a column of them lines up.
func sec(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }
