// Command scalingtrials tries the scaling policies on random runs and writes what came of it: the tables of
// trials/scaling/results.md, and its figures. Results are kept in a file, line by line, so that a run that was
// interrupted goes on where it was: make scaling-trials. Start reading at run.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"

	trial "github.com/millrace/millrace/trials/scaling"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "scalingtrials:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("scalingtrials", flag.ContinueOnError)
	kept := flags.String("results", ".millrace/scaling-trials.jsonl", "file of results, one workload a line")
	again := flags.Bool("again", false, "play nothing but starvation, again, where the other policies' results are kept")
	seen := flags.Int("seen", 60, "workloads of those that the policies were looked at with")
	held := flags.Int("held-out", 200, "workloads of those that were held out")
	page := flags.String("page", "", "page whose tables are written, such as trials/scaling/results.md")
	figure := flags.String("figure", "", "file of the figure of all workloads, such as trials/scaling/scaling.svg")
	sums := flags.String("sums", "", "file of the figure of their sums, such as trials/scaling/scaling-sums.svg")
	if err := flags.Parse(args); err != nil {
		return err
	}
	results, err := readResults(*kept)
	if err != nil {
		return err
	}
	seeds := [2][]uint64{numbered(trial.FirstSeed, *seen), numbered(trial.FirstHeldOut, *held)}
	if err := playAll(ctx, results, *kept, slices.Concat(seeds[0], seeds[1]), *again); err != nil {
		return err
	}
	if *page == "" {
		return nil
	}
	return writePage([2][]trial.Comparison{results.of(seeds[0]), results.of(seeds[1])}, *page, *figure, *sums)
}
