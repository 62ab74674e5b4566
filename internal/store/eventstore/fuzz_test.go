package store_test

import (
	"encoding/json"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	store "github.com/millrace/millrace/internal/store/eventstore"
)

// FuzzRows: whatever a row of a run's history holds, and whatever id a client resumes after, the list is an error
// or one that the API can write, in order, each event once.
func FuzzRows(f *testing.F) {
	for _, e := range []telemetry.Event{fact("demo", 1), sample("demo", 2)} {
		row, err := telemetry.Encode(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(e.Kind(), string(row), "")
		f.Add(e.Kind(), string(row), "1700000000000-0")
	}
	f.Add("group_dropped", `{"kind":"group_dropped"`, "1-1")
	f.Add("", "", "0-0")
	f.Add("group_dropped\nid: 7", "{}\r\n{}", "9999999999999999999-9999999999999999999")
	f.Add("x", "\xff", "$")
	f.Add("x", "null", "18446744073709551615-0")
	server := miniredis.RunT(f)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	f.Cleanup(func() { _ = rdb.Close() })
	s := store.New(rdb, "test", store.Limits{})
	f.Fuzz(func(t *testing.T, kind, row, after string) {
		ctx := t.Context()
		good, err := telemetry.Encode(fact("demo", 3))
		if err != nil {
			t.Fatal(err)
		}
		server.FlushAll()
		if err := rdb.SAdd(ctx, "test:{demo}:kinds", "group_dropped").Err(); err != nil {
			t.Fatal(err)
		}
		for _, stream := range []string{"test:{demo}:events", "test:{demo}:facts:group_dropped"} {
			for i, values := range [][]any{{"kind", kind, "json", row}, {"kind", "group_dropped", "json", string(good)}} {
				err := rdb.XAdd(ctx, &redis.XAddArgs{Stream: stream, ID: []string{"1700000000001-0", "1700000000002-0"}[i],
					Values: values}).Err()
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		for name, list := range map[string]func(rollout.RunName, string) ([]store.Record, error){
			"recent": func(run rollout.RunName, after string) ([]store.Record, error) { return s.Recent(ctx, run, after, 10) },
			"facts":  func(run rollout.RunName, after string) ([]store.Record, error) { return s.Facts(ctx, run, after, 10) },
		} {
			records, err := list("demo", after)
			if err != nil {
				continue
			}
			for i, r := range records {
				if i > 0 && records[i-1].ID >= r.ID {
					t.Errorf("%s: %s after %s", name, r.ID, records[i-1].ID)
				}
				_, _ = r.Event() // May refuse it, but must not break.
			}
			if _, err := json.Marshal(records); err != nil {
				t.Errorf("%s with a row %q: %v", name, row, err)
			}
			if after == "" && (len(records) == 0 || records[len(records)-1].ID != "1700000000002-0") {
				t.Errorf("%s with a row %q hides the good one: %v", name, row, records)
			}
		}
	})
}
