package crashtest

import "slices"

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

	// StaleTemporal kills Temporal and starts it with its database of a while before.
	StaleTemporal Kind = "stale-temporal"

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

	// What plays games outside dies, or hangs for longer than its lease; with runs of the shapes that have it.
	KillProgram     Kind = "kill-program"
	StopProgram     Kind = "stop-program"
	KillEnvironment Kind = "kill-environment"
	StopEnvironment Kind = "stop-environment"

	// ReturnName deletes the run and starts another one under its name, whose trainer writes other weights to the
	// same paths; ExpireName waits instead until the run, over, is deleted by itself. They end lives of names and are
	// in no deck.
	ReturnName Kind = "return-name"
	ExpireName Kind = "expire-name"
)

// kinds are those of what plays outside.
func (s Shape) kinds() []Kind {
	switch s {
	case External:
		return []Kind{KillProgram, KillProgram, KillProgram, StopProgram, StopProgram}
	case OpenEnv:
		return []Kind{KillEnvironment, KillEnvironment, KillEnvironment, StopEnvironment, StopEnvironment}
	}
	return nil
}

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
		StaleTemporal, TerminateGroup, TerminateRun, TerminateFleet, HangLoad, EnginesOutage, EndWorker,
	}
}
