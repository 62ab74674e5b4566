package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/kit/progressline"
	"github.com/millrace/millrace/trials/experiment"
	"github.com/millrace/millrace/trials/experiment/report"
)

func newExperimentCommand(env environment) *cobra.Command {
	var folder string
	var seeds int
	cmd := &cobra.Command{
		Use:   "experiment [NAME...]",
		Short: "Run experiments on batching and scheduling, and write a report of each, with a verdict on its claims",
		Long: `Run experiments on batching, scheduling and training pipelines in virtual time, by the service's own
scheduler and models of engines: those of these names or beginnings of names, else all. Each has a setting, what is
varied in it, and claims, most of them from notes that this project grew out of. The report, a page with drawings, says
of each claim whether it holds, does not hold or cannot be decided, with the figures that show it. Exit code 1 if a
verdict is another than the file says.

Experiments: ` + strings.Join(experiment.Names(), ", "),
		RunE: func(cmd *cobra.Command, args []string) error {
			names, err := experimentsNamed(args)
			if err != nil {
				return err
			}
			unexpected := 0
			for _, name := range names {
				n, err := env.writeExperiment(cmd.Context(), name, folder, seeds)
				if err != nil {
					return err
				}
				unexpected += n
			}
			if unexpected > 0 {
				return fmt.Errorf("%d verdicts are not those that are known", unexpected)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&folder, "out", ".millrace/experiments", "folder that the reports are written to")
	f.IntVar(&seeds, "seeds", 0, "how often cells in which chance plays are played (default: as the file says)")
	return cmd
}

// experimentsNamed is the experiments of which a name is the beginning; all, if no name is given.
func experimentsNamed(begins []string) ([]string, error) {
	if len(begins) == 0 {
		return experiment.Names(), nil
	}
	var all []string
	for _, begin := range begins {
		i := slices.IndexFunc(experiment.Names(), func(name string) bool { return strings.HasPrefix(name, begin) })
		if i < 0 {
			return nil, usage("there is no experiment %s; there are %s", begin, strings.Join(experiment.Names(), ", "))
		}
		all = append(all, experiment.Names()[i])
	}
	return all, nil
}

// writeExperiment runs an experiment, writes its report, and says how many verdicts are not the known ones.
func (e environment) writeExperiment(ctx context.Context, name, folder string, seeds int) (unexpected int, err error) {
	exp, err := experiment.Read(name)
	if err != nil {
		return 0, err
	}
	line := progressline.Start(e.stderr, name)
	result, err := experiment.Run(ctx, exp, experiment.Options{Seeds: seeds,
		Progress: func(done, of int) { line.At(int64(done), int64(of), "cells", "") }})
	line.End()
	if err != nil {
		return 0, err
	}
	for _, c := range result.Unexpected() {
		e.say("%s: %s: %s, known beforehand: %s (%s)", name, c.Name, c.Verdict.Text(), c.Expect.Text(), c.Shows)
	}
	var page bytes.Buffer
	if err := report.Write(&page, result); err != nil {
		return 0, err
	}
	drawings, err := report.Drawings(result)
	if err != nil {
		return 0, err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return 0, err
	}
	for _, d := range drawings {
		if err := os.WriteFile(filepath.Join(folder, d.File), d.SVG, 0o644); err != nil {
			return 0, err
		}
	}
	file := filepath.Join(folder, name+".md")
	if err := os.WriteFile(file, page.Bytes(), 0o644); err != nil {
		return 0, err
	}
	fmt.Fprintln(e.stdout, file)
	return len(result.Unexpected()), nil
}
