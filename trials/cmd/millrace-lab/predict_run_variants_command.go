package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/diagnosis/runrecord"
	"github.com/millrace/millrace/internal/face/cli"
	"github.com/millrace/millrace/internal/game/specfile"
	"github.com/millrace/millrace/internal/kit/freeport"
	"github.com/millrace/millrace/internal/kit/progressline"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/simulate/sim"
	"github.com/millrace/millrace/internal/simulate/sim/calibration"
	"github.com/millrace/millrace/internal/simulate/sim/prediction"
	"github.com/millrace/millrace/trials/diagnosis/smallrecord"
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

// record is the record of a variant's live run, which is played unless it was before.
func (o predictOptions) record(
	ctx context.Context, env environment, example prediction.Example, v prediction.Variant,
) (*runrecord.Record, error) {
	path := filepath.Join(o.records, example.Name, v.Name+".json.gz")
	if !o.recorded {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		spec, err := readSpec(filepath.Join(o.examples, example.Name+".yaml"))
		if err != nil {
			return nil, err
		}
		record, err := o.playLive(ctx, env, example.Name+"/"+v.Name, spec, v)
		if err != nil {
			return nil, fmt.Errorf("play %s: %w", v.Name, err)
		}
		smallrecord.Thin(record, o.compact)
		if err := cli.WriteRecord(record, path); err != nil {
			return nil, err
		}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return runrecord.Read(path, file)
}

// playLive plays a variant with `millrace dev` as a child, and records it when it is over.
func (o predictOptions) playLive(
	ctx context.Context, env environment, name string, spec specfile.File, v prediction.Variant,
) (*runrecord.Record, error) {
	s := sim.Setup{Spec: spec.Spec}
	s.Fleet.Engines = spec.Demo.Engines
	v.Change(&s)
	s.Steps = v.Steps
	dir, remove, err := o.trial.dir()
	if err != nil {
		return nil, err
	}
	defer remove()
	file := filepath.Join(dir, "spec.json")
	document, err := json.Marshal(specfile.File{Spec: s.Spec, Demo: spec.Demo})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, document, 0o644); err != nil {
		return nil, err
	}
	address, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	env.say("playing %s: %d steps with %d engines", name, s.Steps, s.Fleet.Engines)
	args := []string{"dev", "--listen", address, "--spec", file, "--engines", fmt.Sprint(s.Fleet.Engines)}
	programs, err := o.trial.programs()
	if err != nil {
		return nil, err
	}
	args = append(args, "--temporal-bin", programs.Temporal)
	stop, err := startDev(filepath.Join(dir, "log"), programs.Millrace, args...)
	if err != nil {
		return nil, err
	}
	defer stop()
	client, err := cli.NewClient("http://"+address, "", env.http)
	if err != nil {
		return nil, err
	}
	line := progressline.Start(env.stderr, "playing "+name)
	defer line.End()
	return recordWhenOver(ctx, client, s.Spec, line)
}

// longestRun bounds a live run: the slowest example takes some minutes.
const longestRun = 30 * time.Minute

// recordWhenOver waits for a run's end and records it.
func recordWhenOver(ctx context.Context, client cli.Client, spec runspec.Spec, line *progressline.Line,
) (*runrecord.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, longestRun)
	defer cancel()
	var record *runrecord.Record
	err := retry.Until(ctx, time.Second, func(ctx context.Context) error {
		var err error
		if record, err = client.Record(ctx, spec.Name, time.Now()); err != nil {
			return err
		}
		line.At(int64(len(record.Done())), int64(spec.Steps), "steps", string(record.Run.State))
		if !record.Run.State.Over() || len(record.Done()) < spec.Steps {
			return errors.New("the run is not over yet")
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("wait for the end of run %s: %w", spec.Name, err)
	}
	return record, nil
}

// startDev starts `millrace dev` as a child with a log, and returns what ends it.
func startDev(logPath, millrace string, args ...string) (stop func(), err error) {
	log, err := os.Create(logPath)
	if err != nil {
		return nil, err
	}
	child := exec.Command(millrace, args...)
	child.Stdout, child.Stderr = log, log
	if err := child.Start(); err != nil {
		log.Close()
		return nil, fmt.Errorf("start millrace dev: %w", err)
	}
	return func() {
		defer log.Close()
		_ = child.Process.Signal(syscall.SIGINT)                                 // it may have ended
		kill := time.AfterFunc(time.Minute, func() { _ = child.Process.Kill() }) // the same
		_ = child.Wait()                                                         // interrupted
		kill.Stop()
	}, nil
}

// calibrationReport writes where each parameter is from and how well the simulated run meets the record.
func (e environment) calibrationReport(name string, c *calibration.Calibration) error {
	t := table.New(table.Left("parameter"), table.Left("value"), table.Left("from"), table.Left("how"))
	for _, p := range c.Parameters {
		t.Row(p.Name, p.Value, string(p.From), p.How)
	}
	fmt.Fprintf(e.stdout, "%s, calibrated from one run\n\n", name)
	if err := t.Write(e.stdout, 0); err != nil {
		return err
	}
	f := c.Fit
	fmt.Fprintf(e.stdout, `
The simulated run meets its record within %.1f %% per step (median); a steady step takes %.2f s
recorded, %.2f s simulated; a request %.4f s and %.4f s; engines were busy %.0f %% and %.0f %%
of the time. %d runs were simulated.

`, 100*f.MedianError, f.MeanStep.Recorded, f.MeanStep.Simulated, f.RequestSec.Recorded, f.RequestSec.Simulated,
		100*f.BusyShare.Recorded, 100*f.BusyShare.Simulated, f.Simulations)
	for _, w := range c.Warnings {
		fmt.Fprintf(e.stdout, "note: %s\n", w)
	}
	return nil
}

// predictionReport writes the table for people and the line for programs.
func (e environment) predictionReport(rows []predictionRow) error {
	if len(rows) == 0 {
		return usage("--only names no example; there are seed-004 and latency-bound")
	}
	t := table.New(table.Left("run"), table.Right("live s"), table.Right("simulated s"), table.Right("error"),
		table.Right("steady steps"), table.Right("starved from"), table.Right("simulated"), table.Right("turns/s"),
		table.Left("verdict"))
	onset := func(step rollout.Step) string {
		if step < 0 {
			return "never"
		}
		return fmt.Sprint(step)
	}
	failed := false
	for _, r := range rows {
		verdict := "holds"
		if r.Fault != "" {
			verdict, failed = r.Fault, true
		}
		t.Row(r.Example+" "+r.Name, fmt.Sprintf("%.2f", r.Live), fmt.Sprintf("%.2f", r.Simulated),
			fmt.Sprintf("%+.1f %%", 100*r.Error), fmt.Sprintf("%d-%d", r.Window.From, r.Window.To-1), onset(r.LiveOnset),
			onset(r.SimulatedOnset), fmt.Sprintf("%.0f", r.TurnsPerSec), verdict)
	}
	if err := t.Write(e.stdout, 0); err != nil {
		return err
	}
	line, err := json.Marshal(map[string]any{"predictions": rows})
	if err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "%s\n", line)
	if failed {
		return errPredictions
	}
	return nil
}
