package crashtest

// What happens to a fleet that scales. All are of the deck Scaling.
const (
	ScaleUp   Kind = "scale-up"   // more engines are wanted
	ScaleDown Kind = "scale-down" // fewer are
	// KillWhileStarting has engines bought, and kills every worker and a starting engine in the middle of it.
	KillWhileStarting Kind = "kill-while-starting"
	// KillReady has an engine bought and kills it, or its keeper, as soon as it serves.
	KillReady Kind = "kill-ready"
	// KillDraining has an engine given back and kills it, or its keeper, while it is drained.
	KillDraining Kind = "kill-draining"
	// FreezeWorker stops a worker in the middle of a change, for longer than its leases.
	FreezeWorker Kind = "freeze-worker"
	// FailProvider and HangProvider keep the provider from listing engines while some are given back or bought.
	FailProvider Kind = "fail-provider"
	HangProvider Kind = "hang-provider"
	// FailStarts has engines bought that end in their cold start, for a while.
	FailStarts Kind = "fail-starts"
	// TerminateScaling terminates the workflow that scales the fleet.
	TerminateScaling Kind = "terminate-scaling"
)

// Scaling is the deck of what happens to a fleet that scales, mixed with deaths.
const Scaling Deck = "scaling"

// ScalingKinds lists the kinds of the deck of scaling, where Redis is laid out so. All other kinds than its own find a
// fleet that is being changed, every second time.
func ScalingKinds(redis Layout) []Kind {
	kinds := []Kind{
		ScaleUp, ScaleUp, ScaleDown, ScaleDown, KillWhileStarting, KillWhileStarting, KillReady, KillDraining, FreezeWorker,
		FailProvider, HangProvider, FailStarts, TerminateScaling, KillWorker, KillWorker, KillServer, KillTrainer,
		KillTemporal, KillRedis, KillAll, StopWorker, StopRedis, EndWorker, TemporalOutage, StaleRedis, TornRedis,
	}
	switch redis {
	case Sentinel:
		return append(kinds, Failover, Failover, SplitRedis)
	case Cluster:
		return append(kinds, Failover, Failover, MoveSlot, MoveSlot)
	case Single:
	}
	return kinds
}

// ofScaling reports whether a kind is the deck's own.
func (k Kind) ofScaling() bool {
	switch k {
	case ScaleUp, ScaleDown, KillWhileStarting, KillReady, KillDraining, FreezeWorker, FailProvider, HangProvider,
		FailStarts, TerminateScaling:
		return true
	}
	return false
}
