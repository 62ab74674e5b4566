package bench

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/millrace/millrace/internal/table"
)

// WriteText writes the settings as a table, what each of them does, and what the words mean.
func (r SweepResult) WriteText(w io.Writer) error {
	t := table.New(table.Right("WINDOW"), table.Right("MAX BATCH"), table.Left("ORDER"), table.Right("REQUEST p50 s"),
		table.Right("REQUEST p95 s"), table.Right("MAKESPAN s"), table.Right("OUT tok/s"), table.Right("CALLS"))
	for _, row := range r.Rows {
		t.Row(fmt.Sprintf("%g ms", 1000*row.WindowSec), batchName(row.MaxBatch), string(row.Order),
			row.P50Sec.Format("%.3f"), row.P95Sec.Format("%.3f"), row.MakespanSec.Format("%.3f"),
			row.OutputTPS.Format("%.1f"), fmt.Sprintf("%.1f", row.Calls))
	}
	if err := t.Write(w, 0); err != nil {
		return err
	}
	if _, err := fmt.Fprint(w, "\n"); err != nil {
		return err
	}
	if err := r.writeEffects(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", strings.Join(r.notes(), "\n"))
	return err
}

func (r SweepResult) writeEffects(w io.Writer) error {
	if len(r.Effects) == 0 {
		return nil
	}
	t := table.New(table.Left("SETTING"), table.Left("FROM"), table.Left("TO"), table.Left("MEASURE"),
		table.Right("CHANGE %"), table.Left("VERDICT"))
	for _, e := range r.Effects {
		change := e.Change
		change.Mean, change.Half = math.Round(1000*change.Mean)/10+0, 100*change.Half // no -0.0
		t.Row(e.Setting, e.Against, e.Level, e.Measure, change.Format("%.1f"), e.verdict())
	}
	return t.Write(w, 0)
}

func (e SweepEffect) verdict() string {
	switch {
	case !e.Change.Known():
		return "not known: one trial"
	case !e.Decided:
		return "within noise"
	case e.Change.Mean > 0:
		return "slower"
	}
	return "faster"
}

func (r SweepResult) notes() []string {
	c := r.Config
	engines := fmt.Sprintf("%d simulated (A100-80GB, Qwen2.5-7B, LoRA) at speed x%g, behind vLLM's HTTP API", c.Engines,
		c.Speed)
	if len(c.URLs) > 0 {
		engines = strings.Join(c.URLs, " ") + " serving " + r.Model
	}
	arrivals := "all at once"
	if c.Gap > 0 {
		arrivals = fmt.Sprintf("on average %v apart (Poisson)", c.Gap)
	}
	tokens := numbers(c.OutputTokens)
	if c.FreeLength {
		tokens = "at most " + tokens
	}
	return []string{
		"engines      " + engines,
		fmt.Sprintf("workload     %d requests a trial, %s, %s output tokens in turn; %d trials of each setting "+
			"in %d interleaved rounds, after %d that are not counted", c.Requests, arrivals, tokens, c.Trials,
			c.Trials, c.Warmup),
		"REQUEST      from a request's submission to its answer: percentiles over the requests of a trial, mean of trials",
		"MAKESPAN     from the first submission to the last answer: what seed note 002 calls p50",
		"OUT          output tokens over the makespan; CALLS: to engines, per trial",
		"±            95 % confidence over trials (Student's t)",
		"CHANGE       within each round, mean over all settings that have TO against those that have FROM; 95 % " +
			"confidence for all lines of a measure together",
		fmt.Sprintf("drift        %+.1f %% in makespan from the first counted round to the last; settings take turns, so "+
			"that it favours none", 100*r.DriftShare),
	}
}

func numbers(values []int) string {
	var words []string
	for _, v := range values {
		words = append(words, fmt.Sprint(v))
	}
	return strings.Join(words, ", ")
}
