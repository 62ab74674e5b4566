package experiment

import (
	"math"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/sim/enginemodel"
	"github.com/millrace/millrace/internal/sim/openloop"
	"github.com/millrace/millrace/internal/sim/seed003"
	"github.com/millrace/millrace/internal/sim/workload"
)

// Scheduler is what decides which requests go where.
type Scheduler string

// TheDispatcher is the service's own; the others are those of seed note 003 (package seed003).
const TheDispatcher Scheduler = "dispatcher"

func schedulerNames() []string {
	return []string{string(TheDispatcher), string(seed003.StaticFIFO), string(seed003.DynamicNoBins),
		string(seed003.MultiBinDynamic)}
}

// noteConfig is the note's own settings, where the experiment says nothing else.
func (s *Setting) noteConfig(policy seed003.Policy) (seed003.Config, error) {
	t, err := s.Engine.Time.batchTime()
	if err != nil {
		return seed003.Config{}, err
	}
	cfg := seed003.Default(policy, s.Engines, t.Seconds)
	cfg.PythonTies = s.PythonTies
	if most := s.Dispatch.Batching.MaxBatchSize; most > 0 {
		cfg.FixedBatch, cfg.MaxBatch = most, most
	}
	if s.SLO > 0 {
		cfg.Deadline = s.SLO.Seconds()
	}
	if ends := s.Dispatch.Batching.Boundaries; len(ends) > 0 {
		cfg.Boundaries = ends
	}
	return cfg, nil
}

// playNote plays requests with one of the note's schedulers.
func (s *Setting) playNote(requests []openloop.Request) (openloop.Outcome, []enginemodel.BatchDone, error) {
	cfg, err := s.noteConfig(seed003.Policy(s.Scheduler))
	if err != nil {
		return openloop.Outcome{}, nil, err
	}
	out, err := seed003.Play(requests, cfg)
	if err != nil {
		return out, nil, err
	}
	done := make([]enginemodel.BatchDone, len(out.Batches))
	for i, b := range out.Batches {
		done[i] = enginemodel.BatchDone{Began: b.Sent, Ended: out.Served[b.Requests[0]].Ended, Size: len(b.Requests)}
		for _, r := range b.Requests {
			length := requests[r].Prompt + requests[r].Output
			done[i].Useful += length
			done[i].Longest = max(done[i].Longest, length)
		}
	}
	return out, done, nil
}

// asPythonTakesThem is requests of the same moment in the order in which the note's static_fifo takes them.
func (s *Setting) asPythonTakesThem(requests []openloop.Request) ([]openloop.Request, error) {
	cfg, err := s.noteConfig(seed003.StaticFIFO)
	if err != nil {
		return nil, err
	}
	ordered := make([]openloop.Request, 0, len(requests))
	cfg.OnArrival = func(i int) { ordered = append(ordered, requests[i]) }
	_, err = seed003.Play(requests, cfg)
	return ordered, err
}

// What is known of the rows that seed note 003 played: 1,000 of BurstGPT_1.csv, 200 times as fast.
const (
	noteRows   = 1000
	noteTokens = 783_060
	noteSpan   = 246_885 * time.Millisecond
	// surrogateTrace has the same sums, and is another trace, under whatever name it is given.
	surrogateTrace = "burstgpt-surrogate"
)

// rowsOfTheNote is 1 if these are the note's rows, as far as is known of them, and not a number otherwise: claims that
// multiply by it cannot be decided with another trace.
func rowsOfTheNote(requests []openloop.Request) float64 {
	tokens := 0
	for _, r := range requests {
		tokens += r.Prompt + r.Output
	}
	span := requests[len(requests)-1].At - requests[0].At
	if len(requests) != noteRows || tokens != noteTokens || span != noteSpan || isSurrogate(requests) {
		return math.NaN()
	}
	return 1
}

func isSurrogate(requests []openloop.Request) bool {
	surrogate, _ := workload.KnownTrace(surrogateTrace)
	count := map[[2]int]int{} // requests of the same moment may be in another order
	for _, a := range surrogate.Arrivals {
		count[[2]int{a.Prompt, a.Output}]++
	}
	for _, r := range requests {
		count[[2]int{r.Prompt, r.Output}]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

// isNote reports whether the scheduler is one of the note's.
func (s Scheduler) isNote() bool {
	return s != "" && s != TheDispatcher && slices.Contains(schedulerNames(), string(s))
}
