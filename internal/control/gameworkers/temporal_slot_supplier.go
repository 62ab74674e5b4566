package gameworkers

import (
	"context"
	"sync"

	sdkworker "go.temporal.io/sdk/worker"

	"github.com/millrace/millrace/internal/control/gameslots"
	"github.com/millrace/millrace/internal/rollout"
)

// slotPool hands out this worker's slots for games to the Temporal workers of all runs, as gameslots.Pool decides.
type slotPool struct {
	size int

	mu      sync.Mutex
	pool    *gameslots.Pool
	waiting map[rollout.RunName][]chan struct{} // closed when a slot is given; the one that waits longest is first
}

func newSlotPool(size int) *slotPool {
	return &slotPool{size: size, pool: gameslots.New(size), waiting: map[rollout.RunName][]chan struct{}{}}
}

// reserve waits for a slot of a run's.
func (p *slotPool) reserve(ctx context.Context, run rollout.RunName, behind bool) error {
	given := make(chan struct{})
	p.change(func() {
		if behind {
			p.pool.Behind(run)
		} else {
			p.pool.Wait(run)
		}
		p.waiting[run] = append(p.waiting[run], given)
	})
	select {
	case <-given:
		return nil
	case <-ctx.Done():
	}
	p.change(func() {
		for i, w := range p.waiting[run] {
			if w == given {
				p.waiting[run] = append(p.waiting[run][:i:i], p.waiting[run][i+1:]...)
				p.pool.Abandon(run)
				return
			}
		}
		p.pool.Release(run, false) // it was given at the same moment
	})
	return ctx.Err()
}

// change makes a change to the pool, and gives out what can then be given.
func (p *slotPool) change(make func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	make()
	for run, more := p.pool.Next(); more; run, more = p.pool.Next() {
		close(p.waiting[run][0])
		p.waiting[run] = p.waiting[run][1:]
	}
	for run, waiting := range p.waiting {
		if len(waiting) == 0 {
			delete(p.waiting, run)
		}
	}
}

// of is the pool as the Temporal worker of one run sees it, which may go behind others.
func (p *slotPool) of(run rollout.RunName, behind bool) sdkworker.SlotSupplier {
	return runSlots{p, run, behind}
}

type runSlots struct {
	*slotPool
	run    rollout.RunName
	behind bool
}

var _ sdkworker.SlotSupplier = runSlots{}

// isPlayed marks the permit of a slot with a game.
type isPlayed struct{}

func (s runSlots) ReserveSlot(ctx context.Context, _ sdkworker.SlotReservationInfo) (*sdkworker.SlotPermit, error) {
	if err := s.reserve(ctx, s.run, s.behind); err != nil {
		return nil, err
	}
	return &sdkworker.SlotPermit{}, nil
}

// TryReserveSlot is for tasks that a workflow's own worker may take at once, which games never are.
func (s runSlots) TryReserveSlot(sdkworker.SlotReservationInfo) *sdkworker.SlotPermit { return nil }

func (s runSlots) MarkSlotUsed(info sdkworker.SlotMarkUsedInfo) {
	s.change(func() {
		info.Permit().UserData = isPlayed{}
		s.pool.Play(s.run)
	})
}

func (s runSlots) ReleaseSlot(info sdkworker.SlotReleaseInfo) {
	s.change(func() {
		_, played := info.Permit().UserData.(isPlayed)
		s.pool.Release(s.run, played)
	})
}

func (s runSlots) MaxSlots() int { return s.size }
