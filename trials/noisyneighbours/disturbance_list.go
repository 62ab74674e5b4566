package noisyneighbours

import (
	"context"
	"time"
)

// disturbance is something that a healthy run must not feel.
type disturbance struct {
	name string
	what string // for people
	// disturb begins at once, goes on until ctx is done, and takes back what it did. Its note says how it was
	// answered, its error that it could not be done or taken back, which counts as a broken bound.
	disturb func(ctx context.Context, s *site) (note string, err error)
	once    time.Duration // that it may hold up one step, as documented; not counted in the time per step
	spoils  bool          // it leaves too much behind for the next one
}

// disturbances lists them all. Those that leave something behind come last.
func disturbances() []disturbance {
	return []disturbance{
		{name: "timeouts", what: "a run whose every completion times out", disturb: timingOut(40*time.Millisecond, 2, 4, 6)},
		{name: "absurd", what: "the same with 2 x 16 x 16 games and 1 ms for a completion",
			disturb: timingOut(time.Millisecond, 2, 16, 16)},
		{name: "no-model", what: "a run of 2 x 4 x 6 games with a model that nobody serves", disturb: nobodyServes(2, 4, 6)},
		{name: "misspelt", what: "the same with 2 x 16 x 64 games", disturb: nobodyServes(2, 16, 64)},
		{name: "fifo", what: "a run that publishes an adapter whose weights are a pipe", disturb: publishPipe},
		{name: "evaluations", what: "two evaluations of the healthy run itself, of 256 games each",
			disturb: evaluateHealthy},
		{name: "refusing", what: "an engine that answers canaries and refuses games with 400", disturb: misbehaving(refuse)},
		{name: "long-answers", what: "an engine that answers 20 MB of text and 5,000 tokens", disturb: misbehaving(ramble)},
		{name: "hostile", what: "an engine that answers each game in another bad way, of some 50",
			disturb: misbehaving(everyWay())},
		{name: "models", what: "an engine that lists 100,000 adapters", disturb: misbehaving(listMany)},
		{name: "metrics", what: "an engine with 16 MiB of metrics, 1.5 million names", disturb: misbehaving(measureMany)},
		{name: "hung-load", what: "an engine that hangs whenever an adapter is loaded", disturb: hangOnLoad,
			once: loadTimeout},
		{name: "changes", what: "100 engines changed at the same time, again and again", disturb: changeEngines},
		{name: "diagnoses", what: "60 diagnoses at the same time, again and again", disturb: diagnose},
		{name: "claims", what: "2,000 claims that wait for a batch of another run", disturb: waitingClaims},
		{name: "connections", what: "1,500 connections that say nothing", disturb: connections},
		{name: "streams", what: "1,000 streams of events that are never read", disturb: streams},
		{name: "records", what: "40 step records with 0.95 MB of metrics, read by 8 at a time", disturb: bigRecords},
		{name: "games", what: "a run of 1.5 million games", disturb: manyGames, spoils: true},
		{name: "engines", what: "3,000 dead engines added", disturb: deadEngines, spoils: true},
		{name: "runs", what: "600 runs of one game started", disturb: manyRuns, spoils: true},
	}
}
