package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"sync"

	trial "github.com/millrace/millrace/trials/scaling"
)

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
