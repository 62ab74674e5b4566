package crashtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/kit/retry"
)

// Kind is what is done to which kind of part.
type Kind string

// The kinds. A kill is SIGKILL, a stop SIGSTOP and later SIGCONT; a cut closes a link's connections and refuses new
// ones, a hang keeps them open and lets nothing through.
const (
	KillWorker   Kind = "kill-worker"
	KillServer   Kind = "kill-server"
	KillTrainer  Kind = "kill-trainer"
	KillEngine   Kind = "kill-engine"
	KillTemporal Kind = "kill-temporal"
	KillRedis    Kind = "kill-redis"
	KillAll      Kind = "kill-all" // every process at once, as when the machine dies

	StopWorker   Kind = "stop-worker"
	StopServer   Kind = "stop-server"
	StopTrainer  Kind = "stop-trainer"
	StopEngine   Kind = "stop-engine"
	StopTemporal Kind = "stop-temporal"
	StopRedis    Kind = "stop-redis"

	CutWorkerRedis     Kind = "cut-worker-redis"
	CutWorkerTemporal  Kind = "cut-worker-temporal"
	CutWorkerEngine    Kind = "cut-worker-engine"
	CutServerRedis     Kind = "cut-server-redis"
	CutServerTemporal  Kind = "cut-server-temporal"
	HangWorkerRedis    Kind = "hang-worker-redis"
	HangWorkerEngine   Kind = "hang-worker-engine"
	HangServerTemporal Kind = "hang-server-temporal"

	CutTrainerServer  Kind = "cut-trainer-server"
	HangTrainerServer Kind = "hang-trainer-server"

	// ReplaceTrainer stops the trainer, lets a successor take over, and continues the old one, which does not know.
	ReplaceTrainer Kind = "replace-trainer"
	// TemporalOutage kills Temporal and keeps everybody from it for several slots.
	TemporalOutage Kind = "away-temporal"

	FullRedis Kind = "full-redis" // maxmemory below what is used: every write is refused
	SlowRedis Kind = "slow-redis" // writes are held up, as by a slow disk

	// StaleRedis kills Redis and starts it from what its disk held a while before; TornRedis from its log, cut at an
	// arbitrary byte of what it has written since; SnapshotRedis from nothing but an RDB file of a while before.
	StaleRedis    Kind = "stale-redis"
	TornRedis     Kind = "torn-redis"
	SnapshotRedis Kind = "snapshot-redis"

	// StaleNode is StaleRedis of a node of a Cluster that does not have the run's account: the fleet, the index of runs,
	// events or games go back alone.
	StaleNode Kind = "stale-node"

	// Failover lets the master's replica fall behind and stops the master: the replica is promoted, by Sentinel or by the
	// other masters of a Cluster. The old master wakes up beside it, or is killed and comes up again.
	Failover Kind = "failover"
	// SplitRedis has Sentinel promote a replica that lags while the master serves on: a server does not hear of it.
	SplitRedis Kind = "split-redis"
	// MoveSlot moves the slots of a run's account and of some of its games to another master of a Cluster.
	MoveSlot Kind = "move-slot"

	LoseRedis Kind = "lose-redis" // emptied; not in any schedule, because it takes promises with it

	// What happens to names and ends. A workflow is terminated by hand, through Temporal's API.
	TerminateGroup Kind = "terminate-group"
	TerminateRun   Kind = "terminate-run"
	TerminateFleet Kind = "terminate-fleet"
	ForgetRun      Kind = "forget-run"    // Temporal deletes the run's workflow, as at the end of its retention
	HangLoad       Kind = "hang-load"     // an engine hangs whenever an adapter is loaded
	EnginesOutage  Kind = "away-engines"  // nobody reaches any engine
	PublishAgain   Kind = "publish-again" // the newest version, from the same path
	PublishOther   Kind = "publish-other" // other weights under the newest version
	// SecondDeployment starts, changes and stops a run of the same name in another deployment on the same Redis and
	// namespace.
	SecondDeployment Kind = "second-deployment"
	EndWorker        Kind = "end-worker" // SIGTERM
	// ReturnName deletes the run and starts another one under its name, whose trainer writes other weights to the
	// same paths; ExpireName waits instead until the run, over, is deleted by itself. They end lives of names and are
	// in no deck.
	ReturnName Kind = "return-name"
	ExpireName Kind = "expire-name"
)

// Deck is which kinds a schedule deals.
type Deck string

// The decks.
const (
	Processes Deck = "processes" // what happens to processes and to the network between them
	Names     Deck = "names"     // what happens to workflows, names, versions and whole deployments
)

// Decks lists them.
func Decks() []Deck { return []Deck{Processes, Names, Scaling} }

// Layout is which nodes Redis is made of.
type Layout string

// The layouts.
const (
	Single   Layout = "single"   // one server
	Sentinel Layout = "sentinel" // a master and a replica, and a Sentinel
	Cluster  Layout = "cluster"  // three masters with a replica each
)

// Layouts lists them.
func Layouts() []Layout { return []Layout{Single, Sentinel, Cluster} }

// Kinds are those of the deck where Redis is laid out so; a schedule deals them all before it deals one again.
func (d Deck) Kinds(redis Layout) []Kind {
	switch d {
	case Names:
		return NameKinds()
	case Scaling:
		return ScalingKinds(redis)
	}
	switch redis {
	case Sentinel:
		return append(withoutLinksToRedis(), Failover, Failover, SplitRedis, SplitRedis)
	case Cluster:
		return append(withoutLinksToRedis(), StaleNode, StaleNode, Failover, Failover, MoveSlot, MoveSlot, MoveSlot)
	}
	return Kinds()
}

// NameKinds lists the kinds of the deck of names: its own, and the deaths that they are mixed with.
func NameKinds() []Kind {
	return []Kind{
		TerminateGroup, TerminateRun, TerminateFleet, ForgetRun, HangLoad, EnginesOutage, PublishAgain, PublishOther,
		SecondDeployment, EndWorker, KillWorker, KillServer, KillEngine,
	}
}

// withoutLinksToRedis is the kinds of the deck of processes that cut no way to Redis: callers are told where its nodes
// are, so that nothing can be put between.
func withoutLinksToRedis() []Kind {
	return slices.DeleteFunc(Kinds(), func(k Kind) bool {
		return k == CutWorkerRedis || k == CutServerRedis || k == HangWorkerRedis
	})
}

// Kinds lists the kinds of the deck of processes.
func Kinds() []Kind {
	return []Kind{
		KillWorker, KillWorker, KillServer, KillTrainer, KillEngine, KillTemporal, KillRedis, KillAll,
		StopWorker, StopServer, StopTrainer, StopEngine, StopTemporal, StopRedis,
		CutWorkerRedis, CutWorkerTemporal, CutWorkerEngine, CutServerRedis, CutServerTemporal,
		HangWorkerRedis, HangWorkerEngine, HangServerTemporal, FullRedis, SlowRedis,
		StaleRedis, TornRedis, SnapshotRedis, CutTrainerServer, HangTrainerServer, ReplaceTrainer, TemporalOutage,
		TerminateGroup, TerminateRun, TerminateFleet, HangLoad, EnginesOutage, EndWorker,
	}
}

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
	}
	switch f.Kind {
	case KillWorker, KillServer, KillTrainer, KillEngine, KillTemporal, KillRedis, KillAll, EndWorker,
		TerminateGroup, TerminateRun, TerminateFleet, ForgetRun, PublishAgain, PublishOther, SecondDeployment:
	case EnginesOutage:
		f.Hold = enginesUnavailable
		s.slot += int(f.Hold / s.every)
	case TemporalOutage:
		f.Hold = time.Duration(part * (6 + 2*s.rng.Float64()))
		s.slot += s.slots(f.Hold)
	case MoveSlot, ScaleUp, ScaleDown, KillWhileStarting, TerminateScaling:
	case KillReady, KillDraining: // an engine comes into a phase before
		s.slot += 2 * quiet
	case FreezeWorker, FailProvider, HangProvider, FailStarts:
		f.Hold = scalingHold(f.Kind, s.rng.Float64())
		s.slot += s.slots(f.Hold)
	case StaleRedis, StaleNode, TornRedis, SnapshotRedis, Failover, SplitRedis:
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
