package crashtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/scaling/scaledfleet"
	"github.com/millrace/millrace/internal/scaling/supply"
	"github.com/millrace/millrace/trials/stack"
)

const (
	scaledWithin = time.Minute
	// staysFor is how long what was wanted must stay as it is: an engine that nobody remembers to have bought comes late.
	staysFor = 3 * time.Second
)

// checkScaling has the fleet come to exactly so many bought engines, without a fault meanwhile: processes, keepers,
// orders, what scaling knows and the fleet's members are the same engines, and stay so.
func (in *injector) checkScaling(ctx context.Context, n int) {
	s := in.service
	if s.bought == nil || ctx.Err() != nil {
		return
	}
	in.fault.Lock()
	defer in.fault.Unlock()
	err := stack.Await(ctx, in.scaledWithin(), func(ctx context.Context) error { return s.want(ctx, engines+n) })
	if err == nil {
		err = stack.Await(ctx, in.scaledWithin(), func(ctx context.Context) error { return s.haveExactly(ctx, n) })
	}
	for until := time.Now().Add(staysFor); err == nil && time.Now().Before(until); {
		if err = retry.Pause(ctx, 200*time.Millisecond); err == nil {
			err = s.haveExactly(ctx, n)
		}
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		in.complain("%d engines are to be bought: not within %v: %v", n, in.scaledWithin(), err)
		return
	}
	in.exact++
	s.say("  %d engines are bought, as many as are wanted", n)
}

func (in *injector) scaledWithin() time.Duration {
	return in.service.cfg.patient(scaledWithin)
}

// haveExactly says what keeps the fleet from having exactly n bought engines that serve.
func (s *service) haveExactly(ctx context.Context, n int) error {
	registry := scaledfleet.Registry{Registry: fleet.NewRegistry(s.rdb, prefix, time.Now)}
	view, _, err := registry.Scaling(ctx)
	if err != nil {
		return err
	}
	members, err := registry.Members(ctx)
	if err != nil {
		return err
	}
	run, keepers := s.bought.running()
	ran := map[string]int{} // ports
	for _, p := range run {
		ran[p.id] = p.port
	}
	switch orders := s.bought.orders(); {
	case len(run) != n || len(ran) != n:
		return fmt.Errorf("%d engines run: %v; scaling knows %s", len(run), run, knownTo(view))
	case view.Wanted != engines+n || view.Actual.Ready != engines+n || view.Actual.Alive() != engines+n ||
		view.Actual.Draining != 0:
		return fmt.Errorf("%d engines run, and scaling says %s", n, knownTo(view))
	case view.Trouble != "":
		return fmt.Errorf("scaling has trouble: %s", view.Trouble)
	case len(keepers) != n:
		return fmt.Errorf("%d engines run, and %d keepers: %v", n, len(keepers), keepers)
	case len(orders) != n:
		return fmt.Errorf("%d engines run, and there are orders %v", n, orders)
	}
	return errors.Join(sameEngines(ran, view), sameMembers(ran, members), inARow(view))
}

func knownTo(view supply.View) string {
	return fmt.Sprintf("%d wanted, %+v, engines %v, trouble %q", view.Wanted, view.Actual, view.Engines, view.Trouble)
}

// orders are the engines that the provider has orders of.
func (b *boughtEngines) orders() (ids []string) {
	all, _ := filepath.Glob(filepath.Join(b.dir, "*", "*", "order.json"))
	for _, file := range all {
		ids = append(ids, filepath.Base(filepath.Dir(file)))
	}
	return ids
}

// sameEngines compares what runs, by id and port, with what scaling knows.
func sameEngines(ran map[string]int, view supply.View) error {
	known := map[string]int{}
	for _, e := range view.Engines {
		known[string(e.ID)] = portOf(e.Instance.URL)
	}
	if !maps.Equal(ran, known) {
		return fmt.Errorf("what runs is %v, and what scaling knows %v", ran, known)
	}
	return nil
}

// sameMembers compares it with the members of the fleet that were bought.
func sameMembers(ran map[string]int, members []fleet.Member) error {
	of := map[string]int{}
	for _, m := range members {
		if m.Source == fleet.SourceScaling {
			of[string(m.ID)] = portOf(m.URL)
		}
	}
	if !maps.Equal(ran, of) {
		return fmt.Errorf("what runs is %v, and bought members of the fleet are %v", ran, of)
	}
	return nil
}

func portOf(url string) int {
	port, _ := strconv.Atoi(url[strings.LastIndexByte(url, ':')+1:])
	return port
}

// inARow says that decisions do not follow from one another: one was taken twice, or forgotten.
func inARow(view supply.View) error {
	for i, d := range view.Decisions {
		if i == 0 {
			continue
		}
		if last := view.Decisions[i-1]; d.No != last.No+1 || d.From != last.To {
			return fmt.Errorf("decision %d (%d to %d engines) follows decision %d (%d to %d)", d.No, d.From, d.To, last.No,
				last.From, last.To)
		}
	}
	return nil
}

// finishScaling checks at the end of all that no engine is left, and what was paid for.
func (in *injector) finishScaling(ctx context.Context) {
	s := in.service
	if s.bought == nil || ctx.Err() != nil {
		return
	}
	in.checkScaling(ctx, 2)
	registry := scaledfleet.Registry{Registry: fleet.NewRegistry(s.rdb, prefix, time.Now)}
	view, _, err := registry.Scaling(ctx)
	if err != nil {
		in.complain("what scaling says at the end cannot be read: %v", err)
		return
	}
	b := s.bought
	b.mu.Lock()
	seconds := b.ledger.seconds + float64(engines)*time.Since(b.began).Seconds()
	for _, v := range b.ledger.violations {
		in.complain("%s", v)
	}
	ids := slices.Sorted(maps.Keys(b.ledger.engines))
	most := b.ledger.most
	b.mu.Unlock()
	if len(ids) > view.Started {
		in.complain("%d engines have run, and scaling has asked for %d: %v", len(ids), view.Started, ids)
	}
	if v := plausibleCost(view.Cost, seconds, enginePrice); v != "" {
		in.complain("%s", v)
	}
	s.say("  %d engines were asked for and %d have run, at most %d at once, for $%.3f; %d times there were exactly as "+
		"many as were wanted", view.Started, len(ids), most, view.Cost, in.exact)
	in.checkScaling(ctx, 0)
	if left, _ := filepath.Glob(filepath.Join(b.dir, "*", ".new-*")); len(left) > 0 {
		in.complain("the provider has left %v", left)
	}
	if _, err := os.Stat(b.broken()); err == nil {
		in.complain("the harness has left engines unable to start") // a fault that was not taken back
	}
}

// plausibleCost says why a cost cannot be that of engines that ran so long; "": it can. While nobody looks at the
// fleet, scaling takes it for what it was, so that a quarter is allowed for.
func plausibleCost(cost, seconds, perHour float64) string {
	want := seconds / 3600 * perHour
	const least = 0.02 // $: what a few looks cost
	if d := cost - want; d > want/4+least || -d > want/4+least {
		return fmt.Sprintf("scaling says that the fleet has cost $%.3f, and the engines that ran cost $%.3f", cost, want)
	}
	return ""
}
