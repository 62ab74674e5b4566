package experiment

import (
	"github.com/millrace/millrace/trials/experiment/openloop"
	"github.com/millrace/millrace/trials/experiment/seed003"
	"github.com/millrace/millrace/trials/experiment/wholebatch"
)

// Scheduler is what decides which requests go where.
type Scheduler string

// TheDispatcher is the service's own; the others are those of seed note 003 (package seed003).
const TheDispatcher Scheduler = "dispatcher"

// noteConfig is the note's own settings, where the experiment says nothing else.
func (s *Setting) noteConfig(policy seed003.Policy) (seed003.Config, error) {
	t, err := s.Engine.Time.batchTime()
	if err != nil {
		return seed003.Config{}, err
	}
	cfg := seed003.Default(policy, s.Engines, t.Seconds)
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
func (s *Setting) playNote(requests []openloop.Request) (openloop.Outcome, []wholebatch.BatchDone, error) {
	cfg, err := s.noteConfig(seed003.Policy(s.Scheduler))
	if err != nil {
		return openloop.Outcome{}, nil, err
	}
	out, err := seed003.Play(requests, cfg)
	if err != nil {
		return out, nil, err
	}
	done := make([]wholebatch.BatchDone, len(out.Batches))
	for i, b := range out.Batches {
		done[i] = wholebatch.BatchDone{Began: b.Sent, Ended: out.Served[b.Requests[0]].Ended, Size: len(b.Requests)}
		for _, r := range b.Requests {
			length := requests[r].Prompt + requests[r].Output
			done[i].Useful += length
			done[i].Longest = max(done[i].Longest, length)
		}
	}
	return out, done, nil
}

// isNote reports whether the scheduler is one of the note's.
func (s Scheduler) isNote() bool {
	return seed003.Known(seed003.Policy(s))
}
