package live

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch/dispatchlog"
	"github.com/millrace/millrace/internal/engine/dispatch/dispatchlog/logreplay"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

type logFile struct{ bytes.Buffer }

func (*logFile) Close() error { return nil }

// TestLoggedEventsReplayIdentically: engines fail, hang, are lost and come back, callers go away, rules change; and
// the log of it brings the same decisions.
func TestLoggedEventsReplayIdentically(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var file logFile
		log := dispatchlog.NewWriter(&file, 0)
		flaky := &fake{takes: time.Second}
		flaky.answer = func(ctx context.Context, req rollout.Request) (rollout.Completion, error) {
			if len(req.ID)%2 == 0 {
				return fault(rollout.Retryable, rollout.CodeEngineError)(ctx, req)
			}
			return good(ctx, req, flaky.takes)
		}
		r := newRig(t, Config{Scheduler: fast, Log: log}, 4, &fake{takes: 3 * time.Second}, flaky,
			&fake{takes: time.Hour})
		r.SetRules("r", runspec.Dispatch{Policy: runspec.LeastTokens, GroupPerEngine: 2, Order: runspec.ShortestFirst,
			Ageing: 1})
		random := rand.New(rand.NewPCG(1, 2))
		var calls []<-chan result
		for i := range 200 {
			ctx, cancel := context.WithCancel(t.Context())
			if i%7 == 0 {
				ctx, cancel = context.WithTimeout(t.Context(), time.Duration(random.IntN(20))*time.Second)
			}
			defer cancel()
			calls = append(calls, r.call(ctx, turn(name(i), i/8, i%8)))
			time.Sleep(time.Duration(random.IntN(int(500 * time.Millisecond))))
			switch i {
			case 60:
				r.SetEngines(r.with("a", enginestate.EngineLost))
			case 100:
				r.SetEngines(r.list())
				r.SetRules("r", runspec.Dispatch{Policy: runspec.RoundRobin})
			case 150:
				r.SetEngines(r.with("c", enginestate.EngineDraining))
			}
		}
		for _, c := range calls {
			<-c
		}
		synctest.Wait()
		r.empty()
		r.Forget("r")
		r.stop()
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := logreplay.Run(&file)
		if err != nil || got.Difference != nil || got.Requests < 180 {
			t.Fatalf("%v; %d requests; the first difference is %+v", err, got.Requests, got.Difference)
		}
	})
}
