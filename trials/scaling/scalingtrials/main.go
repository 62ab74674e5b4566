// Command scalingtrials tries the scaling policies on random runs and writes what came of it: the tables of
// trials/scaling/results.md, and its figures. Results are kept in a file, line by line, so that a run that was
// interrupted goes on where it was: make scaling-trials.
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

	"github.com/millrace/millrace/trials/scaling"
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
		if c.Fixed != nil && c.From != nil { // else it is of an older version of this command
			known[c.Seed] = c
		}
	}
	return known, lines.Err()
}

func numbered(first uint64, count int) []uint64 {
	var seeds []uint64
	for n := range count {
		seeds = append(seeds, first+uint64(n))
	}
	return seeds
}

// of is the comparisons of some seeds.
func (r results) of(seeds []uint64) []trial.Comparison {
	var all []trial.Comparison
	for _, seed := range seeds {
		all = append(all, r[seed])
	}
	return all
}

// playAll plays what is not known, on all cores.
func playAll(ctx context.Context, known results, path string, seeds []uint64, again bool) error {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	todo := slices.DeleteFunc(seeds, func(seed uint64) bool {
		c, ok := known[seed]
		return ok && !again && c.Whole()
	})
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		done  int
		fault error
	)
	next := make(chan uint64)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := range next {
				mu.Lock()
				before, ok := known[seed]
				mu.Unlock()
				c, err := play(ctx, seed, before, ok, again)
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
			next <- seed
		}
	}
	close(next)
	wg.Wait()
	return fault
}

// play plays what is not known of a workload.
func play(ctx context.Context, seed uint64, c trial.Comparison, known, again bool) (trial.Comparison, error) {
	w := trial.Draw(seed)
	if !known {
		c = w.NewComparison()
	}
	if again {
		c.PlayAgain()
	}
	return c, w.Compare(ctx, &c)
}
