package buffermodel

import (
	"slices"

	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/run/runmachine"
)

// Account is what the run is told of its groups. It never comes back older.
func (b *Buffer) Account() runmachine.Account {
	return runmachine.Account{
		Highest: b.highest, Queued: slices.Clone(b.queued.all), InFlight: slices.Clone(b.inFlight.all),
		Ready: slices.Clone(b.ready.all), Claimed: b.granted, Completed: b.next, Version: b.version,
		Bytes: b.bytes, GroupBytes: b.meanBytes(), Mark: runstatus.Mark{Era: 1}, Confirmed: true,
	}
}

// Counts is the groups by state.
func (b *Buffer) Counts() steprecord.BufferCounts {
	return steprecord.BufferCounts{
		Queued: int64(len(b.queued.all)), InFlight: int64(len(b.inFlight.all)), Ready: int64(len(b.ready.all)),
		Claimed: int64(len(b.claimed.all)), Completed: b.completed, Dropped: b.drops, Bytes: b.bytes,
	}
}

// Departures counts the groups that have left, by why and by the length of their games: first those trained on, then
// the dropped ones by code.
func (b *Buffer) Departures() []steprecord.LengthCount {
	left := steprecord.Departures{}
	for key, n := range b.departures {
		left.Count(key.code, key.bucket, *n)
	}
	return left.List()
}
