package delivery_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	store "github.com/millrace/millrace/internal/store/eventstore"
)

// TestScopesOfRunsThatAreOver: once the sink has got the events of a run that is over nobody looks for more, until
// somebody has written one, noted or not, or there is another sink, which may not have got them.
func TestScopesOfRunsThatAreOver(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		then func(p *shipping)
		open bool
	}{
		{"nothing happens", func(*shipping) {}, false},
		{"a fact that its script cannot note", func(p *shipping) { p.tell("a") }, true},
		{"an event", func(p *shipping) {
			writer := store.New(p.rdb, p.prefix, store.Limits{})
			writer.Emit(fact("a", 77))
			writer.Close()
		}, true},
		{"another sink", func(p *shipping) {
			p.ok(p.store.Release(p.t.Context(), fmt.Sprint(p.owner)))
			p.ok(p.store.ForgetSink(p.t.Context()))
			_, _, err := p.store.Lease(p.t.Context(), "me", time.Hour)
			p.ok(err)
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
				ctx, p := t.Context(), newShipping(t, rdb, "test", 1)
				_, err := p.runs().Active(ctx)
				p.ok(err)
				p.ok(p.runs().Open(ctx, "a"))
				p.tell("a")
				p.ok(p.runs().End(ctx, "a", time.Now()))
				p.ok(store.NoteScope(ctx, rdb, p.prefix, "a"))
				p.ok(p.runs().WoundUp(ctx, "a"))
				if looked(ctx, p); !slices.Contains(noted(ctx, p), "a") {
					t.Error("it is done before the sink has got all")
				}
				for p.ship(100, false) > 0 {
				}
				if looked(ctx, p); slices.Contains(noted(ctx, p), "a") {
					t.Error("it is looked at when all is shipped")
				}
				tt.then(p)
				looked(ctx, p)
				scopes, err := p.store.Scopes(ctx)
				if p.ok(err); slices.Contains(scopes, "a") != tt.open {
					t.Errorf("the sink's scopes: %v", scopes)
				}
				p.holds()
			})
		})
	}
}

func looked(ctx context.Context, p *shipping) { p.ok(p.store.Trim(ctx)) }

func noted(ctx context.Context, p *shipping) []rollout.RunName {
	var runs []rollout.RunName
	for _, name := range p.rdb.SMembers(ctx, p.prefix+":event-scopes").Val() {
		runs = append(runs, rollout.RunName(name))
	}
	return runs
}
