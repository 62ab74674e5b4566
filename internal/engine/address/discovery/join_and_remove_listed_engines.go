package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// Registry is what a Follower needs of the fleet.
type Registry interface {
	Members(ctx context.Context) ([]fleet.Member, error)
	// AddListed makes an engine a member on behalf of a source.
	AddListed(ctx context.Context, e enginestate.Engine, source string) error
	// Remove takes an engine out of the fleet; unless now, when it has finished what it has.
	Remove(ctx context.Context, id rollout.EngineID, now bool) error
}

var _ Registry = (*fleet.Registry)(nil)

// Follower brings the fleet in line with a source: listed engines join, and those that the source named before and no
// longer does leave when they have finished. Engines that an operator added are left alone. A list that cannot be
// read changes nothing.
type Follower struct {
	Source   *Source
	Registry Registry
	Every    time.Duration // between two readings; 0: 10s
	Complain func(error)   // hears why the source cannot be followed
}

const defaultEvery = 10 * time.Second

// errEmptyList keeps a list that was truncated, or a name whose engines are all being replaced, from emptying the
// fleet.
var errEmptyList = errors.New("lists no engine; nothing is changed")

// Run follows the source until ctx is done.
func (f Follower) Run(ctx context.Context) {
	if f.Every <= 0 {
		f.Every = defaultEvery
	}
	tick := time.NewTicker(f.Every)
	defer tick.Stop()
	for {
		if err := f.follow(ctx); err != nil && ctx.Err() == nil {
			f.Complain(fmt.Errorf("engines from %s: %w", f.Source.name, err))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// follow reads the list once, which must not take longer than the time to the next reading.
func (f Follower) follow(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, f.Every)
	defer cancel()
	listed, err := f.Source.read(ctx)
	if err != nil {
		return err
	}
	if len(listed) == 0 {
		return errEmptyList
	}
	members, err := f.Registry.Members(ctx)
	if err != nil {
		return err
	}
	join, leave := Difference(members, listed, f.Source.name)
	var errs []error
	for _, e := range join {
		errs = append(errs, f.Registry.AddListed(ctx, e, f.Source.name))
	}
	for _, id := range leave {
		errs = append(errs, f.Registry.Remove(ctx, id, false))
	}
	return errors.Join(errs...)
}

// Difference is which listed engines are to join, and which members that this source named are to leave. An engine that
// is a member in any other way is left as it is; one that an operator drains stays drained.
func Difference(members []fleet.Member, listed []enginestate.Engine, source string) (
	join []enginestate.Engine, leave []rollout.EngineID,
) {
	listedURLs := map[string]bool{}
	for _, e := range listed {
		m, err := fleet.NewMember(e, time.Time{})
		if err != nil {
			continue
		}
		listedURLs[m.URL] = true
		at := slices.IndexFunc(members, func(old fleet.Member) bool { return old.URL == m.URL })
		if at < 0 || members[at].Leave && members[at].Source == source {
			join = append(join, e)
		}
	}
	for _, m := range members {
		if m.Source == source && !m.Leave && !listedURLs[m.URL] {
			leave = append(leave, m.ID)
		}
	}
	return join, leave
}
