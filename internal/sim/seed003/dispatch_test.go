package seed003

import (
	"bytes"
	"encoding/csv"
	"errors"
	"math"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/sim/enginemodel"
	"github.com/millrace/millrace/internal/sim/openloop"
)

// TestDispatcherMeetsTheNote: the service's dispatcher, told to send batches of at most 8 without waiting, does exactly
// what the note's static_fifo does.
func TestDispatcherMeetsTheNote(t *testing.T) {
	t.Parallel()
	requests := surrogate(t)
	for _, engines := range []int{1, 2, 4} {
		for _, python := range []bool{false, true} {
			cfg := Default(StaticFIFO, engines, enginemodel.Seed003Time().Seconds)
			cfg.PythonTies = python
			var order []int
			cfg.OnArrival = func(i int) { order = append(order, i) }
			note, err := Play(requests, cfg)
			if err != nil {
				t.Fatal(err)
			}
			ordered := make([]openloop.Request, len(order))
			for at, i := range order {
				ordered[at] = requests[i]
			}
			ours, err := openloop.Play(static(ordered, engines))
			if err != nil {
				t.Fatal(err)
			}
			a, b := note.Metrics(requests, time.Second), ours.Metrics(ordered, time.Second)
			// With four engines Python has a completion and an arrival of the same moment the other way round.
			if a != b && (!python || engines < 4) {
				t.Errorf("%d engines, Python's ties %v:\nnote       %+v\ndispatcher %+v", engines, python, a, b)
			}
		}
	}
}

// TestPartialBurstGPT: what is known of the real rows, 500 arrivals and prompts and 30 answers, takes the dispatcher as
// long as this oracle, which knows no dispatcher, no agenda and no engine.
func TestPartialBurstGPT(t *testing.T) {
	t.Parallel()
	requests := partialRows(t)
	const size = 8
	var want []time.Duration
	free, i := 0.0, 0
	for i < len(requests) {
		start := max(free, requests[i].At.Seconds())
		batch, longest := 0, 0
		for i+batch < len(requests) && batch < size && requests[i+batch].At.Seconds() <= start {
			longest = max(longest, requests[i+batch].Prompt+requests[i+batch].Output)
			if batch++; start > free { // an idle engine takes the first that comes, alone
				break
			}
		}
		b := float64(batch)
		free = start + 0.015 + 0.0003*float64(longest)*(1+0.4*(b-1)/b)
		for range batch {
			want = append(want, time.Duration(math.Round(free*1e9)))
		}
		i += batch
	}
	out, err := openloop.Play(static(requests, 1))
	if err != nil {
		t.Fatal(err)
	}
	for i, served := range out.Served {
		if d := served.Ended - want[i]; d < -1 || d > 1 {
			t.Fatalf("request %d ended at %v, the oracle says %v", i, served.Ended, want[i])
		}
	}
}

// partialRows reads the rows as they are: Timestamp, Request tokens, whether those were cut off, Response tokens.
// Answers that are not known have as many tokens as the prompt has.
func partialRows(t *testing.T) []openloop.Request {
	t.Helper()
	data, err := os.ReadFile("testdata/burstgpt1_first500_partial.csv")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var requests []openloop.Request
	for _, row := range rows[1:] {
		at, err1 := strconv.ParseFloat(row[0], 64)
		prompt, err2 := strconv.Atoi(row[1])
		output, err3 := strconv.Atoi(row[3])
		if err3 != nil {
			output = prompt
		}
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		requests = append(requests, openloop.Request{At: time.Duration(at*1e9) / 200, Prompt: prompt, Output: output})
	}
	return requests
}

// static is the note's static_fifo, as the service would be told to do it.
func static(requests []openloop.Request, engines int) openloop.Setting {
	return openloop.Setting{
		Requests: requests, Engines: engines,
		Engine: func(int) (enginemodel.Engine, error) {
			return enginemodel.NewWholeBatch(enginemodel.WholeBatchConfig{Time: enginemodel.Seed003Time()})
		},
		Rules: rollout.Dispatch{Order: rollout.ArrivalOrder, AffinitySlack: -1,
			Batching: rollout.Batching{MaxBatchSize: 8}},
	}
}
