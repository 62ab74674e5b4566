// Package crashtest breaks the whole service, run as real processes on loopback, by a seeded schedule of faults. It
// checks that what was promised holds: every step has exactly its groups, no trajectory is trained on twice or lost,
// the same claim gives the same bytes, every turn was sampled by the version it names. It measures how long each part's
// death is felt.
//
// What was promised is docs/guarantees.md. The schedule and the checks are pure: fault_schedule.go and
// final_checks_of_trained_run.go. Everything that is observed comes from outside the service: the trainer's journal,
// claims over HTTP, the buffer's account in Redis, and a recorder between the workers and the engines. Start reading at
// Run.
package crashtest

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// Run runs the service under faults and checks it. The error is about the harness; violations are in the report.
func Run(ctx context.Context, cfg Config) (Report, error) {
	cfg.fill()
	s, err := startService(ctx, cfg)
	if err != nil {
		return Report{}, fmt.Errorf("start the service: %w", err)
	}
	defer s.stop()

	began := time.Now()
	observing, stopObserving := context.WithCancel(ctx)
	defer stopObserving()
	watch := newWatch(s)
	go watch.observe(observing)
	go watch.question(observing)

	injector := newInjector(s, watch)
	injecting, stopInjecting := context.WithCancel(ctx)
	defer stopInjecting()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if cfg.Lose {
			injector.lose(injecting)
			return
		}
		injector.run(injecting, cfg.schedule(), cfg.Duration)
	}()

	report := Report{Dropped: map[rollout.Code]int64{}}
	report.Summary.Seed = cfg.Seed
	for i := 1; ; i++ {
		outcome, err := s.train(ctx, watch, injector, cfg.plan(i))
		if err != nil {
			stopInjecting()
			<-done
			return report, fmt.Errorf("run %d: %w", i, err)
		}
		report.take(outcome, check(outcome))
		s.say("run %d (%s): %d steps in %d lines, %d violations so far (%s)",
			i, outcome.plan.cfg.Shape, report.Summary.Steps, len(outcome.journal), len(report.Violations),
			time.Since(began).Round(time.Second))
		injector.checkScaling(ctx, int(cfg.Seed+int64(i))%(mostBought+1))
		if cfg.Lose || over(done) && outcome.plan.last() || len(report.Violations) > 0 {
			break
		}
	}
	stopInjecting()
	<-done
	injector.finishScaling(ctx)
	report.finish(injector, s.recorder, watch)
	return report, ctx.Err()
}

func over(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
