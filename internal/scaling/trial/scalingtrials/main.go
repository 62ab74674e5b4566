// Command scalingtrials tries the scaling policies on random runs and writes what came of it: the tables of
// docs/scaling.md, and its figure. Results are kept in a file, line by line, so that a run that was interrupted goes
// on where it was: make scaling-trials.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"

	"github.com/millrace/millrace/internal/scaling/trial"
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
	count := flags.Int("workloads", 200, "workloads of each of the two sets")
	page := flags.String("page", "", "page whose tables are written, such as docs/scaling.md")
	figure := flags.String("figure", "", "file of the figure, such as docs/scaling.svg")
	if err := flags.Parse(args); err != nil {
		return err
	}
	results, err := readResults(*kept)
	if err != nil {
		return err
	}
	if err := playAll(ctx, results, *kept, *count, *again); err != nil {
		return err
	}
	if *page == "" {
		return nil
	}
	return writePage(results.sets(*count), *page, *figure)
}

// results are the comparisons that are known, by seed.
type results map[uint64]trial.Comparison

func readResults(path string) (results, error) {
	known := results{}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return known, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var c trial.Comparison
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return nil, fmt.Errorf("%s: %w; remove the line, and its workload is played again", path, err)
		}
		known[c.Seed] = c
	}
	return known, lines.Err()
}

// sets is the known comparisons of both sets, in the order of their seeds.
func (r results) sets(count int) [2][]trial.Comparison {
	var sets [2][]trial.Comparison
	for i, first := range []uint64{trial.FirstSeed, trial.FirstHeldOut} {
		for n := range uint64(count) {
			if c, ok := r[first+n]; ok {
				sets[i] = append(sets[i], c)
			}
		}
	}
	return sets
}

// playAll plays what is not known, both sets side by side, on all cores.
func playAll(ctx context.Context, known results, path string, count int, again bool) error {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	var todo []uint64
	for n := range uint64(count) {
		todo = append(todo, trial.FirstSeed+n, trial.FirstHeldOut+n)
	}
	todo = slices.DeleteFunc(todo, func(seed uint64) bool { _, ok := known[seed]; return ok != again })
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		done  int
		fault error
	)
	seeds := make(chan uint64)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := range seeds {
				mu.Lock()
				before, ok := known[seed]
				mu.Unlock()
				c, err := play(ctx, seed, before, ok)
				mu.Lock()
				if err == nil {
					known[seed] = c
					err = json.NewEncoder(out).Encode(c)
				}
				fault = errors.Join(fault, err)
				if done++; done%10 == 0 {
					fmt.Fprintf(os.Stderr, "%d of %d workloads\n", done, len(todo))
				}
				mu.Unlock()
			}
		})
	}
	for _, seed := range todo {
		if ctx.Err() == nil {
			seeds <- seed
		}
	}
	close(seeds)
	wg.Wait()
	return fault
}

func play(ctx context.Context, seed uint64, before trial.Comparison, known bool) (trial.Comparison, error) {
	w := trial.Draw(seed)
	if known {
		return before, w.CompareStarvation(ctx, &before)
	}
	return w.Compare(ctx)
}
