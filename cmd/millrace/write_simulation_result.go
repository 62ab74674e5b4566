package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/diagnosis/reporttext"
	"github.com/millrace/millrace/internal/face/cli"
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/simulate/sim"
)

// simulation is what `millrace simulate` shows: the first seed's run whole, and the sums of each.
type simulation struct {
	Simulated bool                    `json:"simulated"` // always: no number of it was measured
	File      string                  `json:"file"`
	Setup     sim.Setup               `json:"setup"`
	Assumed   []sim.Assumption        `json:"assumed"`
	Records   []steprecord.StepRecord `json:"records"`
	Report    diagnosis.Report        `json:"report"`
	Seeds     []seedTotals            `json:"seeds"`

	given []string // settings of the command, which took the place of the file's
}

// seedTotals is the sums of one simulated run.
type seedTotals struct {
	Seed         int64   `json:"seed"`
	WallSec      float64 `json:"wall_seconds"`
	Steps        int     `json:"steps"`
	StepSec      float64 `json:"step_seconds"`  // mean, without the prefill
	LevelSec     float64 `json:"level_seconds"` // mean of the last level of steps, where there is one
	StarvedShare float64 `json:"starved_share"` // of the steps' time that the trainer waited for a batch
	InputTPS     float64 `json:"input_tps"`
	OutputTPS    float64 `json:"output_tps"`
	CachedShare  float64 `json:"cached_share"` // of the input
	BusyShare    float64 `json:"busy_share"`   // of the engines' time
	SlotShare    float64 `json:"slot_share"`   // of the requests that engines take at a time
	EngineHours  float64 `json:"engine_hours"`
	Games        int64   `json:"games"`
	Trained      int64   `json:"trained_tokens"`
	Requests     int64   `json:"requests"`
	Redispatched int64   `json:"redispatched"`
}

// add takes the result of one seed.
func (s *simulation) add(seed int64, r sim.Result) {
	report := diagnosed(s.File, s.given, s.Setup.Fleet.Engines, r)
	if len(s.Seeds) == 0 {
		s.Simulated, s.Records, s.Report = true, r.Input.Records, report
	}
	t, wall := r.Totals, r.Wall.Seconds()
	totals := seedTotals{
		Seed: seed, WallSec: wall, EngineHours: t.EngineSec / 3600, Games: r.Games, Trained: r.Trained,
		InputTPS: units.Share(float64(t.Input), wall), OutputTPS: units.Share(float64(t.Output), wall),
		CachedShare: units.Share(float64(t.Cached), float64(t.Input)), BusyShare: units.Share(t.BusySec, t.EngineSec),
		SlotShare: units.Share(t.InFlightSec, t.LimitSec), Requests: t.Completed, Redispatched: t.Redispatched,
	}
	sum, waited := 0.0, 0.0
	for _, record := range r.Input.Records {
		if record.Done {
			totals.Steps++
			sum += record.StepSec()
			waited += record.StepPhases()[steprecord.PhaseWait]
		}
	}
	totals.StepSec, totals.StarvedShare = units.Share(sum, float64(totals.Steps)), units.Share(waited, sum)
	if n := len(report.Levels); n > 0 {
		totals.LevelSec = report.Levels[n-1].StepSec
	}
	s.Seeds = append(s.Seeds, totals)
}

func (s *simulation) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(s)
}

func (s *simulation) writeText(w io.Writer) error {
	f := s.Setup.Fleet
	fmt.Fprintf(w, "SIMULATED: run %s on %s of profile %s, games from %s, seed %d.\n", s.Setup.Name,
		units.Counted(f.Engines, "engine"), f.Profile, s.Setup.Workload.Source(), s.Setup.Seed)
	fmt.Fprintln(w, "Where it says measured below, the simulated records were read; nothing was measured live.")
	if f.TimeFactor != 1 {
		fmt.Fprintf(w, "The engines' times are %s of the profile's; the profile's own: --set fleet.time_factor=1\n",
			units.Number(f.TimeFactor))
	}
	if err := s.writeAssumed(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if err := cli.WriteSteps(w, s.Records); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if err := reporttext.Write(w, s.Report); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if len(s.Seeds) > 1 {
		return s.writeSeeds(w)
	}
	return s.writeTotals(w)
}

func (s *simulation) writeAssumed(w io.Writer) error {
	if len(s.Assumed) == 0 {
		return nil
	}
	fmt.Fprintln(w, "The file does not say, and it was assumed:")
	t := table.New(table.Left(""), table.Left(""), table.Left(""))
	for _, a := range s.Assumed {
		from := "by default"
		if a.From != sim.FromDefault {
			from = "from " + a.From
		}
		t.Row("  "+a.Key, a.Value, from)
	}
	return t.Write(w, 0)
}

func (s *simulation) writeTotals(w io.Writer) error {
	v := s.Seeds[0]
	t := table.New(table.Left(""), table.Left(""))
	t.Row("whole run (simulated)", fmt.Sprintf("%s in %v, the prefill included; the trainer waited %s of the steps' time",
		units.Counted(v.Steps, "step"), roundedWall(v.WallSec), units.Percent(v.StarvedShare)))
	t.Row("tokens", fmt.Sprintf("%.0f input/s, %s of them cached; %.0f output/s; %d trained on", v.InputTPS,
		units.Percent(v.CachedShare), v.OutputTPS, v.Trained))
	t.Row("engines", fmt.Sprintf("%s busy, %s of their slots in use, %s GPU-hours", units.Percent(v.BusyShare),
		units.Percent(v.SlotShare), units.Number(v.EngineHours)))
	t.Row("games", fmt.Sprintf("%d, %d requests, %d of them dispatched again", v.Games, v.Requests, v.Redispatched))
	return t.Write(w, 0)
}

func roundedWall(sec float64) time.Duration {
	d := time.Duration(sec * float64(time.Second))
	if d < time.Minute {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}

// confidence is the probability with which the intervals of several seeds hold the mean.
const confidence = 0.95

// writeSeeds says how far the seeds' results differ.
func (s *simulation) writeSeeds(w io.Writer) error {
	t := table.New(table.Left(fmt.Sprintf("%d seeds (simulated)", len(s.Seeds))), table.Right("mean"),
		table.Right("95 % interval"), table.Right("lowest"), table.Right("highest"))
	for _, row := range []struct {
		name string
		of   func(seedTotals) float64
	}{
		{"step s", func(v seedTotals) float64 { return v.StepSec }},
		{"step s, last level", func(v seedTotals) float64 { return v.LevelSec }},
		{"starved %", func(v seedTotals) float64 { return 100 * v.StarvedShare }},
		{"wall s", func(v seedTotals) float64 { return v.WallSec }},
		{"input tok/s", func(v seedTotals) float64 { return v.InputTPS }},
		{"output tok/s", func(v seedTotals) float64 { return v.OutputTPS }},
		{"engines busy %", func(v seedTotals) float64 { return 100 * v.BusyShare }},
		{"GPU-hours", func(v seedTotals) float64 { return v.EngineHours }},
	} {
		values := make([]float64, len(s.Seeds))
		for i, v := range s.Seeds {
			values[i] = row.of(v)
		}
		mean := stat.Mean(values, confidence)
		lowest, highest := values[0], values[0]
		for _, v := range values {
			lowest, highest = min(lowest, v), max(highest, v)
		}
		t.Row(row.name, units.Number(mean.Mean), fmt.Sprintf("%s - %s", units.Number(mean.Mean-mean.Half),
			units.Number(mean.Mean+mean.Half)), units.Number(lowest), units.Number(highest))
	}
	if err := t.Write(w, 0); err != nil {
		return err
	}
	fmt.Fprintf(w, "The steps and the diagnosis above are those of seed %d.\n", s.Seeds[0].Seed)
	return nil
}
