package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"strings"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/face/cli"
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// learnSpec is the run of millrace dev --learn without a file.
//
//go:embed learn.yaml
var learnSpec []byte

// learned writes the reward of each step's games as a curve, and whether it rose from the first to the last of them.
func (d *devStack) learned(ctx context.Context, api cli.Client, spec runspec.Spec) error {
	found, _, err := apiclient.Get[struct{ Steps []steprecord.StepRecord }](ctx, api.Client,
		apiclient.RunPath(spec.Name)+"/steps")
	if err != nil {
		return err
	}
	var rewards []float64
	for i := range found.Steps {
		if reward, known := found.Steps[i].Trainer.Metrics["reward_mean"]; known {
			rewards = append(rewards, reward)
		}
	}
	writeCurve(d.env.Stdout, rewards, spec.Buffer.GroupsPerStep*spec.Group.Samples)
	return nil
}

// writeCurve compares a quarter of the steps at either end, by Student's t of the steps' means.
func writeCurve(w io.Writer, rewards []float64, games int) {
	const width = 50 // of a reward of 1
	fmt.Fprintf(w, "\nmean reward of each step's %d games\n", games)
	for step, r := range rewards {
		fmt.Fprintf(w, "%4d  %.3f %s\n", step, r, strings.Repeat("#", max(0, int(r*width+0.5))))
	}
	n := len(rewards) / 4
	before, after := stat.Mean(rewards[:n], 0.95), stat.Mean(rewards[len(rewards)-n:], 0.95)
	if !before.Known() || !after.Known() {
		fmt.Fprintln(w, "too few steps to say whether it learns")
		return
	}
	says := "it learns"
	if after.Mean-after.Half <= before.Mean+before.Half {
		says = "it is not shown that it learns"
	}
	fmt.Fprintf(w, "first %d steps %s, last %d steps %s (95 %%): %s\n", n, before.Format("%.3f"), n,
		after.Format("%.3f"), says)
}
