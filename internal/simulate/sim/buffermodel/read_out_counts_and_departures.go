package buffermodel

import (
	"cmp"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
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
	byCode := map[rollout.Code]*steprecord.LengthCount{}
	for key, n := range b.departures {
		c := byCode[key.code]
		if c == nil {
			c = &steprecord.LengthCount{Code: key.code}
			byCode[key.code] = c
		}
		c.Groups += *n
		c.ByLength = append(c.ByLength, make([]int64, max(0, key.bucket+1-len(c.ByLength)))...)
		c.ByLength[key.bucket] = *n
	}
	counts := make([]steprecord.LengthCount, 0, len(byCode))
	for _, c := range byCode {
		counts = append(counts, *c)
	}
	slices.SortFunc(counts, func(x, y steprecord.LengthCount) int {
		return cmp.Or(trainedFirst(x.Code)-trainedFirst(y.Code), cmp.Compare(x.Code, y.Code))
	})
	return counts
}

func trainedFirst(code rollout.Code) int {
	if code == steprecord.Trained {
		return 0
	}
	return 1
}
