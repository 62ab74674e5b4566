package store_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry/store"
)

// TestScopesOfRunsThatAreOver: once every sink has got the events of a run that is over nobody looks for more, until
// somebody has written one, noted or not, or there is a sink that may not have got them.
func TestScopesOfRunsThatAreOver(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		then func(p *shipping) (sink string)
		open bool
	}{
		{"nothing happens", func(*shipping) string { return "axiom" }, false},
		{"a fact that its script cannot note", func(p *shipping) string { p.tell("a"); return "axiom" }, true},
		{"an event", func(p *shipping) string {
			writer := store.New(p.rdb, p.prefix, store.Limits{})
			writer.Emit(fact("a", 77))
			writer.Close()
			return "axiom"
		}, true},
		{"another sink", func(p *shipping) string {
			_, _, err := p.store.Lease(p.t.Context(), "another", "me", time.Hour)
			p.ok(err)
			return "another"
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
				sink := tt.then(p)
				looked(ctx, p)
				scopes, err := p.store.Scopes(ctx, sink)
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
