package engineprofile

import (
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/simulate/enginesim/batch"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
)

// badFit is from which median error on a fit should not be believed.
const badFit = 0.05

// WriteText writes what was measured beside what the fit makes of it, the terms of the fit, and the ceilings of the
// profile, if it has any.
func (c *Calibration) WriteText(w io.Writer, p *enginemodel.Profile) error {
	t := table.New(table.Left("WHAT"), table.Right("AT ONCE"), table.Right("PROMPT tok"), table.Right("OUTPUT tok"),
		table.Right("MEASURED ms"), table.Right("FITTED ms"), table.Right("OFF"), table.Right("ROUNDS DIFFER BY"))
	for i := range c.Fit.Rows {
		r := &c.Fit.Rows[i]
		what, output := r.What, fmt.Sprint(r.Output)
		if r.Adapter {
			what += ", adapter"
		}
		if r.Less > 0 {
			output = fmt.Sprintf("%d-%d", r.Output, r.Less)
		}
		t.Row(what, fmt.Sprint(r.Batch), fmt.Sprint(r.Prompts), output, fmt.Sprintf("%.2f", 1000*r.Sec),
			fmt.Sprintf("%.2f", 1000*r.Fitted), fmt.Sprintf("%+.1f %%", 100*r.Error()), fmt.Sprintf("%.1f %%", 100*r.Spread))
	}
	if err := t.Write(w, 0); err != nil {
		return err
	}
	middle, worst := c.errors()
	fmt.Fprintf(w, "\nOUTPUT A-B is the time that answers of A tokens take longer than answers of B: decoding alone.\n"+
		"The fit is off by %.1f %% in the middle and %.1f %% at most.\n\n", 100*middle, 100*worst)
	if err := c.writeTerms(w, p); err != nil {
		return err
	}
	for _, warning := range c.warnings(p) {
		fmt.Fprintf(w, "WARNING: %s\n", warning)
	}
	return WriteCeilings(w, p)
}

func (c *Calibration) writeTerms(w io.Writer, p *enginemodel.Profile) error {
	t := table.New(table.Left("FIGURE"), table.Right("VALUE"), table.Left("KIND"))
	for _, f := range p.Figures() {
		if f.Section == "step" || f.Section == "engine" {
			t.Row(f.Section+"."+f.Key, fmt.Sprintf("%g", f.Value), string(f.Kind))
		}
	}
	if err := t.Write(w, 0); err != nil {
		return err
	}
	cost := p.Cost(1)
	one := cost.Duration(batch.Work{Decoding: 1, KV: 500})
	prefill := cost.Duration(batch.Work{Prefill: 2048, Attended: 2048 * 2048})
	_, err := fmt.Fprintf(w, "\nOne sequence decodes %.1f tokens/s; a prompt of 2,048 tokens is computed at %.0f "+
		"tokens/s.\n", 1/one.Seconds(), 2048/prefill.Seconds())
	return err
}

// warnings says what makes the profile worth less than it looks.
func (c *Calibration) warnings(p *enginemodel.Profile) []string {
	var all []string
	model := strings.ToLower(path.Base(c.Measurements.Model))
	if p.Model.Name != "" && !strings.Contains(strings.ToLower(p.Model.Name), model) {
		all = append(all, fmt.Sprintf("the engine serves %s, and the bounds below are those of %s: write your model's "+
			"figures into the profile", c.Measurements.Model, p.Model.Name))
	}
	if middle, _ := c.errors(); middle > badFit {
		all = append(all, "the fit does not meet the measurements: was the engine alone, and is it one engine?")
	}
	if c.Measurements.CachedShare > 0.02 {
		all = append(all, fmt.Sprintf("%.0f %% of the prompts' tokens were found in the prefix cache, so that prefill seems "+
			"faster than it is", 100*c.Measurements.CachedShare))
	}
	if c.Fit.Adapter == 0 {
		all = append(all, "the factor of an adapter is assumed: load one and name it with --adapter")
	}
	return all
}
