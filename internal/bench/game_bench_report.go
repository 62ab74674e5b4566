package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/millrace/millrace/internal/table"
)

// reported is a published measurement of the same group, with which the table can be compared: Qwen2.5-7B-Instruct
// with LoRA on one A100, 6 games of 3 years, one call per trajectory, by a loop that waits for every answer
// (2024-12-19).
var reported = GameRow{
	Mode: "reported", Trajectories: 42, Calls: 42, PromptTokens: 18462, CompletionTokens: 991,
	PromptTokensPerCall: 439.6, CompletionTokensPerCall: 23.6, WallSeconds: 27.39, InferenceSeconds: 23.14,
	SecondsPerCall: 0.551, InFlight: 1, InputTPS: 674, OutputTPS: 36.2, InferenceOutputTPS: 42.8,
}

// MarshalJSON gives the rows as a JSON array, one object per way of playing.
func (r GameResult) MarshalJSON() ([]byte, error) { return json.Marshal(r.Rows) }

// WriteText writes a column per way of playing, and what explains the difference.
func (r GameResult) WriteText(w io.Writer) error {
	rows := append(append([]GameRow{}, r.Rows...), reported)
	columns := []table.Column{table.Left("")}
	for _, row := range rows {
		columns = append(columns, table.Right(strings.ToUpper(row.Mode)))
	}
	t := table.New(columns...)
	for _, line := range []struct {
		name string
		cell func(GameRow) string
	}{
		{"trajectories", func(g GameRow) string { return fmt.Sprint(g.Trajectories) }},
		{"calls", func(g GameRow) string { return fmt.Sprint(g.Calls) }},
		{"prompt tokens", func(g GameRow) string { return fmt.Sprint(g.PromptTokens) }},
		{"completion tokens", func(g GameRow) string { return fmt.Sprint(g.CompletionTokens) }},
		{"prompt tokens per call", func(g GameRow) string { return fmt.Sprintf("%.1f", g.PromptTokensPerCall) }},
		{"completion tokens per call", func(g GameRow) string { return fmt.Sprintf("%.1f", g.CompletionTokensPerCall) }},
		{"wall time, s", func(g GameRow) string { return fmt.Sprintf("%.2f", g.WallSeconds) }},
		{"inference time, s", func(g GameRow) string { return fmt.Sprintf("%.2f", g.InferenceSeconds) }},
		{"inference share of wall time", func(g GameRow) string { return percent(ratio(g.InferenceSeconds, g.WallSeconds)) }},
		{"time per call, s", func(g GameRow) string { return fmt.Sprintf("%.3f", g.SecondsPerCall) }},
		{"calls in flight, mean", func(g GameRow) string { return fmt.Sprintf("%.1f", g.InFlight) }},
		{"input tok/s", func(g GameRow) string { return fmt.Sprintf("%.0f", g.InputTPS) }},
		{"output tok/s", func(g GameRow) string { return fmt.Sprintf("%.1f", g.OutputTPS) }},
		{"output tok/s of inference time", func(g GameRow) string { return fmt.Sprintf("%.1f", g.InferenceOutputTPS) }},
	} {
		cells := []string{line.name}
		for _, row := range rows {
			cells = append(cells, line.cell(row))
		}
		t.Row(cells...)
	}
	if err := t.Write(w, 0); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", strings.Join(r.notes(), "\n"))
	return err
}

func (r GameResult) notes() []string {
	engine := fmt.Sprintf("a simulated A100-80GB with Qwen2.5-7B and LoRA, run at speed x%g; times are those of the "+
		"engine, so that what this\n"+
		"            machine adds to a call counts %g-fold", r.Config.Speed, r.Config.Speed)
	if r.Config.URL != "" {
		engine = r.Config.URL + " serving " + r.Model
	}
	sequential, concurrent := r.Rows[0], r.Rows[1]
	rate := ratio(sequential.CompletionTokensPerCall, sequential.SecondsPerCall)
	lost := max(0, reported.SecondsPerCall-ratio(reported.CompletionTokensPerCall, rate))
	return []string{
		"engine      " + engine,
		fmt.Sprintf("games       %d of %d years, all powers learning; inference time is the time with a call at the engine",
			r.Config.Samples, r.Config.Years),
		"sequential  one call at a time: the next one is sent when the answer is there",
		"concurrent  all powers of a phase and all games at once, as millrace plays",
		"reported    42 calls of a loop that waited for every answer, on an A100, 2024-12-19",
		"",
		fmt.Sprintf("One call at a time leaves the engine with a batch of one: %.1f tokens in %.3f s are %.0f tok/s, "+
			"whatever the GPU could do.",
			sequential.CompletionTokensPerCall, sequential.SecondsPerCall, rate),
		fmt.Sprintf("The reported 36 to 43 tok/s are that, and %.2f s a call lost beside it. With %.1f calls in flight the "+
			"same games take %.1f times less",
			lost, concurrent.InFlight, ratio(sequential.WallSeconds, concurrent.WallSeconds)),
		fmt.Sprintf("time: %.0f tok/s.", concurrent.OutputTPS),
	}
}
