package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/environments"
	"github.com/millrace/millrace/internal/experiment"
	"github.com/millrace/millrace/internal/experiment/report"
	"github.com/millrace/millrace/internal/settings"
	"github.com/millrace/millrace/internal/sim/workload"
	"github.com/millrace/millrace/internal/table"
	"github.com/millrace/millrace/internal/waitline"
)

func newExperimentCommand(env environment) *cobra.Command {
	parent := &cobra.Command{
		Use:   "experiment",
		Short: "Experiments on batching and scheduling, with a verdict on each claim",
		Long: `Experiments on batching, scheduling and training pipelines, in virtual time, by the service's own scheduler and models of engines. Each has
a setting, what is varied in it, and claims; after a run every claim has a verdict: holds, does not hold, cannot be decided, with the
figures that show it. The results of those that come with the program are in docs/experiments.md.`,
	}
	parent.AddCommand(newExperimentListCommand(env), newExperimentRunCommand(env), newExperimentPageCommand(env))
	return parent
}

func newExperimentListCommand(env environment) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the experiments that come with the program",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			t := table.New(table.Left("NAME"), table.Right("CELLS"), table.Right("CLAIMS"), table.Left("TITLE"))
			for _, name := range config.ExperimentNames() {
				e, err := env.readExperiment(name)
				if err != nil {
					return err
				}
				cells := 0
				for _, p := range e.Parts {
					cells += len(p.Cells)
				}
				t.Row(e.Name, fmt.Sprint(cells), fmt.Sprint(len(e.Claims)), e.Title)
			}
			return t.Write(env.stdout, 0)
		},
	}
}

// experimentOptions are the flags of `millrace experiment run`.
type experimentOptions struct {
	compare  bool
	format   string
	svg      string
	arrivals string
	seeds    int
}

func newExperimentRunCommand(env environment) *cobra.Command {
	var o experimentOptions
	cmd := &cobra.Command{
		Use:   "run NAME|FILE",
		Short: "Run an experiment: its tables, and a verdict on each claim",
		Long: `Run an experiment that comes with the program, by its name or the beginning of it, or one of a file of your own.

With --arrivals the parts that take arrivals play yours: CSV with a header or JSON, with a time for each call (arrival_s, in seconds or as dates),
and, if you know them, prompts, prompt_tokens and output_tokens. What their gaps say of flush windows is printed first.`,
		Example: `  millrace experiment run 000
  millrace experiment run 002 --compare --svg figures
  millrace experiment run 000 --arrivals my_router_log.csv`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return env.runExperiment(cmd.Context(), args[0], o)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return config.ExperimentNames(), cobra.ShellCompDirectiveDefault
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.compare, "compare", false, "show also every cell as a multiple of its part's baseline")
	f.StringVarP(&o.format, "output", "o", "table", "table or json")
	f.StringVar(&o.svg, "svg", "", "write the figures into this folder")
	f.StringVar(&o.arrivals, "arrivals", "", `play these arrivals: CSV or JSON; "-" is standard input`)
	f.IntVar(&o.seeds, "seeds", 0, "how often cells in which chance plays are played (default: as the file says)")
	return cmd
}

func (e environment) runExperiment(ctx context.Context, name string, o experimentOptions) error {
	if err := benchFormat(o.format); err != nil {
		return err
	}
	if o.seeds < 0 || o.seeds > maxSeeds {
		return usage("--seeds %d: want 1 to %d", o.seeds, maxSeeds)
	}
	exp, err := e.readExperiment(name)
	if err != nil {
		return err
	}
	tell, end := e.experimentProgress(exp.Name)
	defer end()
	options := experiment.Options{Seeds: o.seeds, Progress: tell}
	if o.arrivals != "" {
		trace, err := e.readArrivals(o.arrivals)
		if err != nil {
			return err
		}
		if !exp.TakesArrivals() {
			return usage("--arrivals: no part of %s plays other arrivals", exp.Name)
		}
		options.Arrivals = &trace
		if o.format != "json" {
			if err := report.WriteGaps(e.stdout, trace); err != nil {
				return err
			}
		}
	}
	result, err := experiment.Run(ctx, exp, options)
	if err != nil {
		return err
	}
	if o.svg != "" {
		if err := writeDrawings(result, o.svg); err != nil {
			return err
		}
	}
	if o.format == "json" {
		out := json.NewEncoder(e.stdout)
		out.SetIndent("", "  ")
		out.SetEscapeHTML(false)
		return out.Encode(result)
	}
	return report.WriteText(e.stdout, result, 0, o.compare)
}

func (e environment) readArrivals(file string) (workload.Trace, error) {
	data, err := e.readFile(file)
	if err != nil {
		return workload.Trace{}, fmt.Errorf("--arrivals: %w", err)
	}
	return workload.ReadTrace(file, data, workload.Times)
}

// readExperiment reads an experiment by its name, the beginning of its name, or its file.
func (e environment) readExperiment(name string) (*experiment.Experiment, error) {
	var found []string
	for _, known := range config.ExperimentNames() {
		if known == name {
			found = []string{name}
			break
		}
		if strings.HasPrefix(known, name) {
			found = append(found, known)
		}
	}
	if len(found) > 1 {
		return nil, usage("%s: there are %s; say more of the name", name, strings.Join(found, ", "))
	}
	if len(found) == 1 {
		data, _ := config.ExperimentFile(found[0])
		return environments.ReadExperiment(found[0]+".yaml", data, e.readFile)
	}
	data, err := e.readFile(name)
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(name, "./") {
		hint := "millrace experiment list shows those that there are"
		if near := settings.Nearest(name, config.ExperimentNames()); near != "" {
			hint = "did you mean " + near + "?"
		}
		return nil, usage("there is no experiment %s; %s", name, hint)
	}
	if err != nil {
		return nil, fmt.Errorf("experiment: %w", err)
	}
	// Files that it names are looked for beside it.
	beside := func(file string) ([]byte, error) {
		if !filepath.IsAbs(file) && file != "-" {
			file = filepath.Join(filepath.Dir(name), file)
		}
		return e.readFile(file)
	}
	return environments.ReadExperiment(name, data, beside)
}

// experimentProgress shows how far an experiment is; it ends with its last cell, or when end is called.
func (e environment) experimentProgress(name string) (tell func(done, of int), end func()) {
	line := waitline.Start(e.stderr, name)
	return func(done, of int) { line.At(int64(done), int64(of), "cells", "") }, line.End
}

func writeDrawings(r *experiment.Result, folder string) error {
	drawings, err := report.Drawings(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, d := range drawings {
		if err := os.WriteFile(filepath.Join(folder, d.File), d.SVG, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func newExperimentPageCommand(env environment) *cobra.Command {
	var only string
	cmd := &cobra.Command{
		Use:   "page DOCS",
		Short: "Write experiments.md and its figures, from new runs of all experiments, into a folder",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return env.writeExperimentPage(cmd.Context(), args[0], only)
		},
	}
	cmd.Flags().StringVar(&only, "only", "", "run only this experiment, and leave the sections of the others as they are")
	return cmd
}

// writeExperimentPage runs all experiments, or one, and writes the page. A verdict that is not the known one is an
// error: either the page or the program is wrong.
func (e environment) writeExperimentPage(ctx context.Context, folder, only string) error {
	figures := filepath.Join(folder, "experiments")
	before, err := os.ReadFile(filepath.Join(folder, "experiments.md"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var page bytes.Buffer
	page.WriteString(report.PageHead)
	unexpected := 0
	for _, name := range config.ExperimentNames() {
		section, known := report.SectionOf(string(before), name)
		if only != "" && !strings.HasPrefix(name, only) && known {
			page.WriteString(section)
			continue
		}
		exp, err := e.readExperiment(name)
		if err != nil {
			return err
		}
		e.say("running %s", cmp.Or(exp.Name, name))
		tell, end := e.experimentProgress(name)
		result, err := experiment.Run(ctx, exp, experiment.Options{Progress: tell})
		end()
		if err != nil {
			return err
		}
		for _, c := range result.Unexpected() {
			unexpected++
			e.say("%s: %s: %s, known beforehand: %s (%s)", name, c.Name, c.Verdict.Text(), c.Expect.Text(), c.Shows)
		}
		if err := report.WriteSection(&page, result, "experiments"); err != nil {
			return err
		}
		if err := writeDrawings(result, figures); err != nil {
			return err
		}
	}
	if err := report.WriteReference(&page); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "experiments.md"), page.Bytes(), 0o644); err != nil {
		return err
	}
	if unexpected > 0 {
		return fmt.Errorf("%d verdicts are not those that are known", unexpected)
	}
	return nil
}
