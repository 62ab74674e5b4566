package runhistory

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/diagnosis/runcurve"
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// Step is what a page draws of one completed step.
type Step struct {
	No         rollout.Step
	Generation rollout.TrainerGeneration
	Version    rollout.PolicyVersion // of the trainer
	At         time.Time             // completed
	Sec        float64               // without the prefill
	Phases     [PhaseCount]float64   // in the order of rollout.Phases; they add up to Sec
	PrefillSec float64
	StarvedSec float64

	StalenessMean float64
	StalenessMax  int64
	Claim         steprecord.BufferCounts // just before the batch was taken
	Depth         int
	GroupsPerStep int
	ReadyDepth    float64

	Reward       stat.GroupedMean // of the games
	Curve        runcurve.Step    // without the agents of games
	Groups       int
	ZeroVariance int
	LengthMean   float64 // of the games, in phases; 0: not known
	LengthMax    int
	InputTPS     float64
	OutputTPS    float64
	Engines      float64 // mean of those ready
	SlotShare    float64
	Tokens       rollout.Usage
	Lost         bool // Redis has lost its record
	// Evaluations is what the trainer told of how good its weights are, by name.
	Evaluations []Evaluation
}

// Evaluation is one number that the trainer told.
type Evaluation struct {
	Name  string
	Value float64
}

// evaluationNames lead the metrics of a trainer that are evaluations, as prime-rl, verl and others call them.
var evaluationNames = []string{"eval", "val"}

// mostEvaluations is how many of them are kept of a step.
const mostEvaluations = 24

// evaluationsOf is a step's metrics that are evaluations, by name.
func evaluationsOf(metrics map[string]float64) []Evaluation {
	var all []Evaluation
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		lead, _, _ := strings.Cut(strings.ToLower(name), "/")
		lead, _, _ = strings.Cut(strings.ReplaceAll(lead, "-", "_"), "_")
		if slices.Contains(evaluationNames, lead) && len(all) < mostEvaluations {
			all = append(all, Evaluation{name, metrics[name]})
		}
	}
	return all
}

// PhaseCount is how many phases a step has.
const PhaseCount = 7

// RowOf is the row of a step record.
func RowOf(r steprecord.StepRecord) Step {
	v := r.Service
	row := Step{
		No: r.Step, Generation: r.Generation, Version: v.Version, At: v.CompletedAt, Sec: r.StepSec(),
		PrefillSec: r.PrefillSec(), StarvedSec: r.StarvedSec(), StalenessMean: v.StalenessMean,
		StalenessMax: v.StalenessMax, Claim: v.AtClaim, Depth: v.Depth, GroupsPerStep: v.GroupsPerStep,
		ReadyDepth: v.ReadyDepth, Groups: len(v.Groups), ZeroVariance: v.ZeroVarianceGroups,
		InputTPS: v.Fleet.InputTPS, OutputTPS: v.Fleet.OutputTPS, Engines: v.Fleet.Engines, SlotShare: v.Fleet.SlotShare,
		Lost: r.LostRecord, Evaluations: evaluationsOf(r.Trainer.Metrics),
	}
	phases := r.StepPhases()
	for i, p := range steprecord.Phases() {
		row.Phases[i] = phases[p]
	}
	row.Curve = runcurve.StepOf(r)
	row.Curve.Results = slices.Clone(row.Curve.Results)
	for i := range row.Curve.Results {
		row.Curve.Results[i].Agents = nil
	}
	played := row.Curve.Played()
	row.Reward, row.LengthMax = played.Reward, played.Longest
	if played.Lengths > 0 {
		row.LengthMean = float64(played.Phases) / float64(played.Lengths)
	}
	for i := range v.Groups {
		row.Tokens = row.Tokens.Add(v.Groups[i].Usage)
	}
	return row
}
