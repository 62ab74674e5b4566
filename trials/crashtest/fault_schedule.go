package crashtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/kit/retry"
)

// Fault is one planned fault.
type Fault struct {
	Kind  Kind
	Index int           // which of several alike
	At    time.Duration // since the schedule's start
	Hold  time.Duration // how long until it is taken back; 0 for kills
	// Chance decides what the kind leaves open, such as where a log is cut.
	Chance int
}

// String is "kill-worker 1 at 12.3s".
func (f Fault) String() string {
	s := fmt.Sprintf("%s %d at %.1fs", f.Kind, f.Index, f.At.Seconds())
	if f.Hold > 0 {
		s += fmt.Sprintf(" for %.1fs", f.Hold.Seconds())
	}
	return s
}

// Schedule deals faults, one per slot, the same for the same seed.
type Schedule struct {
	kinds            []Kind
	rng              *rand.Rand
	every            time.Duration
	workers, engines int
	long             time.Duration // of one absence of Temporal that is yet to come
	deck             []Kind
	slot             int
}

// longAfter is how many slots pass before the long absence of Temporal.
const longAfter = 12

// NewSchedule deals from kinds, for so many workers and engines. With long it holds, besides the deck's absences of
// Temporal, one of that length.
func NewSchedule(kinds []Kind, seed int64, every, long time.Duration, workers, engines int) *Schedule {
	rng := rand.New(rand.NewPCG(uint64(seed), 0xC4A5))
	return &Schedule{kinds: kinds, rng: rng, every: every, long: long, workers: workers, engines: engines}
}

// Next is the next fault. Every fault is taken back within its slot, but for absences of Temporal and of all engines,
// which take several.
func (s *Schedule) Next() Fault {
	if s.long > 0 && s.slot >= longAfter {
		f := Fault{Kind: TemporalOutage, At: s.every * time.Duration(s.slot), Hold: s.long}
		s.slot += s.slots(s.long)
		s.long = 0
		return f
	}
	if len(s.deck) == 0 {
		s.deck = slices.Clone(s.kinds)
		s.rng.Shuffle(len(s.deck), func(i, j int) { s.deck[i], s.deck[j] = s.deck[j], s.deck[i] })
	}
	f := Fault{Kind: s.deck[0]}
	s.deck = s.deck[1:]
	part := float64(s.every)
	f.At = time.Duration(part * (float64(s.slot) + 0.15*s.rng.Float64()))
	hold := time.Duration(part * (0.2 + 0.55*s.rng.Float64()))
	index := s.rng.IntN(1 << 16)
	f.Chance = index
	s.slot++
	switch f.Kind {
	case KillWorker, StopWorker, EndWorker, FreezeWorker, CutWorkerRedis, CutWorkerTemporal, HangWorkerRedis:
		f.Index = index % s.workers
	case KillEngine, StopEngine, CutWorkerEngine, HangWorkerEngine, HangLoad:
		f.Index = index % s.engines
	case KillProgram, StopProgram, KillEnvironment, StopEnvironment:
		f.Index = index % outsiders
	}
	switch f.Kind {
	case KillWorker, KillServer, KillTrainer, KillEngine, KillTemporal, KillRedis, KillAll, EndWorker,
		TerminateGroup, TerminateRun, TerminateFleet, ForgetRun, PublishAgain, PublishOther, SecondDeployment, KillProgram,
		KillEnvironment:
	case EnginesOutage:
		f.Hold = enginesUnavailable
		s.slot += int(f.Hold / s.every)
	case TemporalOutage:
		f.Hold = time.Duration(part * (6 + 2*s.rng.Float64()))
		s.slot += s.slots(f.Hold)
	case StopProgram, StopEnvironment:
		f.Hold = 5 * time.Second // longer than a lease
		s.slot += int(f.Hold / s.every)
	case MoveSlot, ScaleUp, ScaleDown, KillWhileStarting, TerminateScaling:
	case KillReady, KillDraining: // an engine comes into a phase before
		s.slot += 2 * quiet
	case FreezeWorker, FailProvider, HangProvider, FailStarts:
		f.Hold = scalingHold(f.Kind, s.rng.Float64())
		s.slot += s.slots(f.Hold)
	case StaleTemporal, StaleRedis, StaleNode, TornRedis, SnapshotRedis, Failover, SplitRedis:
		f.Hold = time.Duration(part * (0.5 + s.rng.Float64()))
		s.slot += 2
	default:
		f.Hold = hold
	}
	return f
}

// play does every fault that a schedule deals within that duration. A fault that takes longer than its slots holds up
// those after it: how many there are is up to the seed, and not to the machine. What could not be done, because there
// was nothing to break, is tried once more when all others are done.
func (s *Schedule) play(ctx context.Context, duration time.Duration, do func(context.Context, Fault) (done bool)) {
	began := time.Now()
	var missed []Fault
	for f := s.Next(); f.At < duration; f = s.Next() {
		began = began.Add(max(0, time.Since(began.Add(f.At))))
		if retry.Pause(ctx, time.Until(began.Add(f.At))) != nil {
			return
		}
		if !do(ctx, f) {
			missed = append(missed, f)
		}
	}
	for _, f := range missed {
		if retry.Pause(ctx, s.every) != nil {
			return
		}
		do(ctx, f)
	}
}

// scalingHold is how long a fault of the deck of scaling lasts: longer than a look of scaling may take, or than the
// heartbeat of what does something about an engine.
func scalingHold(k Kind, chance float64) time.Duration {
	least, most := 7*time.Second, 14*time.Second
	if k == HangProvider {
		least, most = 5*time.Second, 40*time.Second // a list may take 30 s
	}
	return least + time.Duration(chance*float64(most-least))
}

// enginesUnavailable is long enough for all engines to be taken for lost.
const enginesUnavailable = 5 * time.Second

// quiet is how many slots after an absence are left for finding one another again.
const quiet = 2

// slots is how many slots an absence takes.
func (s *Schedule) slots(hold time.Duration) int { return int(hold/s.every) + quiet }
