package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/diagnosis/runrecord"
	"github.com/millrace/millrace/internal/game/specfile"
	"github.com/millrace/millrace/internal/simulate/sim/calibration"
	"github.com/millrace/millrace/internal/simulate/sim/prediction"
)

// predictOptions are the flags of `millrace predict`.
type predictOptions struct {
	only     []string
	examples string
	records  string
	recorded bool
	compact  int
	trial    serviceTrial
}

// newPredictCommand is what `make predict` calls.
func newPredictCommand(env environment) *cobra.Command {
	o := predictOptions{trial: serviceTrial{noRedis: true}}
	cmd := &cobra.Command{
		Use:   "predict",
		Short: "Predict live runs from the record of one of them, play them live, and compare",
		Long: `Play examples live, each as it is and in variants: with 4 engines, with 1, with depth 4, with 12 samples per
group. Calibrate the simulator from the run as it is alone, predict the variants, and compare the mean time of their
steady steps and the step at which starvation begins. Exit code 1 if a prediction is off by more than 5 % or one step.

Live runs take what the examples take, some minutes each; the machine should have nothing else to do. The records stay
in --records, and --recorded compares them again without playing anything.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return predict(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.only, "only", nil, "examples, or EXAMPLE/VARIANT, separated by commas; all, if not given")
	f.StringVar(&o.examples, "examples", "config/examples", "where the examples' specs are")
	f.StringVar(&o.records, "records", "predict-records", "where records are written, as EXAMPLE/VARIANT.json.gz")
	f.BoolVar(&o.recorded, "recorded", false, "play nothing; compare the records that are there")
	f.IntVar(&o.compact, "compact", 1, "keep one of so many samples in the records, for records that are committed")
	o.trial.add(f)
	return cmd
}

// readSpec reads a run spec's file.
func readSpec(path string) (specfile.File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return specfile.File{}, err
	}
	return specfile.Read(path, data)
}

// errPredictions ends a trial in which a prediction does not hold.
var errPredictions = errors.New("not every prediction holds")

func predict(ctx context.Context, env environment, o predictOptions) error {
	var rows []predictionRow
	var failed error
	for _, example := range prediction.Examples() {
		if !o.wants(example.Name, "") {
			continue
		}
		more, err := o.predictExample(ctx, env, example)
		rows = append(rows, more...)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", example.Name, err))
			break
		}
	}
	return errors.Join(failed, env.predictionReport(rows))
}

// wants reports whether an example, or one of its variants, is asked for.
func (o predictOptions) wants(example, variant string) bool {
	return len(o.only) == 0 || slices.ContainsFunc(o.only, func(only string) bool {
		name, part, _ := strings.Cut(only, "/")
		return name == example && (part == "" || variant == "" || variant == "base" || part == variant)
	})
}

// predictionRow is one prediction, and whose it is.
type predictionRow struct {
	Example string `json:"example"`
	prediction.Prediction
	Error float64 `json:"error"`
	Fault string  `json:"fault,omitempty"`
}

func (o predictOptions) predictExample(
	ctx context.Context, env environment, example prediction.Example,
) (rows []predictionRow, err error) {
	records := map[string]*runrecord.Record{}
	for _, v := range example.Variants {
		if !o.wants(example.Name, v.Name) {
			continue
		}
		if records[v.Name], err = o.record(ctx, env, example, v); err != nil {
			return nil, err
		}
	}
	c, err := calibration.Calibrate(ctx, records["base"], calibration.Options{})
	if err != nil {
		return nil, err
	}
	if err := env.calibrationReport(example.Name, c); err != nil {
		return nil, err
	}
	for _, v := range example.Variants {
		if records[v.Name] == nil {
			continue
		}
		p, err := prediction.Predict(ctx, c, v, records[v.Name])
		if err != nil {
			return rows, err
		}
		row := predictionRow{Example: example.Name, Prediction: p, Error: p.Error()}
		if fault := p.Fault(); fault != nil {
			row.Fault = fault.Error()
		}
		rows = append(rows, row)
	}
	return rows, nil
}
