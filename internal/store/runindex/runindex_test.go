package runindex_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/redistest"
	"github.com/millrace/millrace/internal/store/runindex"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

// onAll runs a test on the embedded Redis, on a real one and on a cluster.
func onAll(t *testing.T, test func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	for name, client := range map[string]func(t testing.TB) redis.UniversalClient{
		"embedded": func(t testing.TB) redis.UniversalClient { return redistest.Client(t, miniredis.RunT(t).Addr(), 0) },
		"real":     redistest.Real,
		"cluster":  func(t testing.TB) redis.UniversalClient { return redistest.Cluster(t, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, client(t))
		})
	}
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// TestLawOfTheIndex: whatever is opened, ended, revived and removed, a run is active if and only if it is there and not
// over, and every run that ended is to be wound up.
func TestLawOfTheIndex(t *testing.T) {
	t.Parallel()
	onAll(t, func(t *testing.T, rdb redis.UniversalClient) {
		rng, ctx := rand.New(rand.NewPCG(1, 2)), t.Context()
		x := runindex.New(rdb, "test")
		ok := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		known, over, wound := map[rollout.RunName]bool{}, map[rollout.RunName]bool{}, map[rollout.RunName]bool{}
		for i := range 400 {
			run := rollout.RunName(fmt.Sprint("run", rng.IntN(12)))
			switch rng.IntN(5) {
			case 0, 1:
				ok(x.Open(ctx, run))
				known[run] = true
			case 2:
				if !known[run] {
					ok(x.End(ctx, run, start)) // it was deleted meanwhile
					break
				}
				ok(x.End(ctx, run, start.Add(time.Duration(i)*time.Second)))
				over[run], wound[run] = true, over[run] && wound[run]
			case 3:
				ok(x.Remove(ctx, run))
				delete(known, run)
				delete(over, run)
			case 4:
				ok(x.Revive(ctx, run))
				delete(over, run)
			}
			active, err := x.Active(ctx)
			ok(err)
			winding, err := x.Winding(ctx)
			ok(err)
			for run := range known {
				if slices.Contains(active, run) == over[run] {
					t.Fatalf("after %d changes %s, over: %t, is active: %t", i, run, over[run], !over[run])
				}
				if over[run] && !wound[run] != slices.Contains(winding, run) {
					t.Fatalf("after %d changes %s, wound up: %t, is to be wound up: %t", i, run, wound[run],
						slices.Contains(winding, run))
				}
			}
			if len(active) != len(known)-len(over) {
				t.Fatalf("after %d changes: active %v, known %v, over %v", i, active, known, over)
			}
			if over[run] && rng.IntN(2) == 0 {
				ok(x.WoundUp(ctx, run))
				wound[run] = true
			}
		}
	})
}

func TestRunsByTheTimeOfTheirEnd(t *testing.T) {
	t.Parallel()
	onAll(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx, x := t.Context(), runindex.New(rdb, "test")
		for i, run := range []rollout.RunName{"first", "second", "third", "fourth"} {
			if err := x.Open(ctx, run); err != nil {
				t.Fatal(err)
			}
			if err := x.End(ctx, run, start.Add(time.Duration(i)*time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		for _, tt := range []struct {
			name string
			list func() ([]rollout.RunName, error)
			want []rollout.RunName
		}{
			{"before the third", func() ([]rollout.RunName, error) {
				return x.EndedBefore(ctx, start.Add(2*time.Hour), 10)
			}, []rollout.RunName{"first", "second"}},
			{"before all", func() ([]rollout.RunName, error) { return x.EndedBefore(ctx, start, 10) }, nil},
			{"before the third, one", func() ([]rollout.RunName, error) {
				return x.EndedBefore(ctx, start.Add(2*time.Hour), 1)
			}, []rollout.RunName{"first"}},
			{"beyond the newest one", func() ([]rollout.RunName, error) { return x.EndedBeyond(ctx, 1, 10) },
				[]rollout.RunName{"first", "second", "third"}},
			{"beyond the newest one, two", func() ([]rollout.RunName, error) { return x.EndedBeyond(ctx, 1, 2) },
				[]rollout.RunName{"first", "second"}},
			{"beyond the newest four", func() ([]rollout.RunName, error) { return x.EndedBeyond(ctx, 4, 10) }, nil},
			{"beyond the newest nine", func() ([]rollout.RunName, error) { return x.EndedBeyond(ctx, 9, 10) }, nil},
		} {
			if got, err := tt.list(); err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("%s: %v, %v; want %v", tt.name, got, err, tt.want)
			}
		}
	})
}
