package fleet_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/engine/share"
	"github.com/millrace/millrace/internal/engine/share/workerregistry"
	"github.com/millrace/millrace/internal/rollout"
)

// FuzzRegistryRows: whatever lies in the fleet's hashes, reading it is an error or a value that the API can write.
func FuzzRegistryRows(f *testing.F) {
	const (
		member      = `{"id":"gpu-1","url":"http://10.0.0.5:8000","max_in_flight":64,"added_at":"2026-01-02T03:04:05Z"}`
		observation = `{"state":"ready","since":"2026-01-02T03:04:05Z","models":["m"],"adapters":["demo-v3"],` +
			`"version":"0.11.0","load":{"running":3,"kv_usage":0.25},"adapter_slots":4}`
		adapter = `{"name":"demo-v3","path":"/adapters/3","run":"demo","version":3}`
		sample  = `{"w":1,"n":2,"b":1,"r":3.5,"l":128,"q":4,"i":1000,"o":60}`
	)
	f.Add(member, observation, adapter, sample, "17")
	f.Add(`{"id":"gpu-1","drain":true,"leave":true,"now":true}`, `{"state":"lost"}`,
		`{"version":-9223372036854775808}`, `{"w":1e308,"r":1e308,"i":1e308}`, "-1")
	f.Add(`null`, `null`, `null`, `null`, "")
	f.Add(`{`, `"`, `[]`, `{"w":"1"}`, "1e3")
	f.Add(member, `{"since":"0000-01-01T00:00:00Z","load":{"running":-1}}`, adapter, `{"w":-1e308}`, "9223372036854775807")
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	rdb := newRedis(f)
	r := fleet.NewRegistry(rdb, "test", func() time.Time { return now })
	workers := workerregistry.New(rdb, "test", func() time.Time { return now })
	samples := fleet.NewSampler(rdb, "test")
	f.Fuzz(func(t *testing.T, member, observation, adapter, sample, count string) {
		ctx := t.Context()
		rdb.FlushAll(ctx)
		if _, _, err := workers.Exchange(ctx, share.Member{Worker: "w"}, time.Minute, time.Minute); err != nil {
			t.Fatal(err)
		}
		rdb.HSet(ctx, "test:{fleet}:members", "gpu-1", member)
		rdb.HSet(ctx, "test:{fleet}:observed", "gpu-1", observation)
		rdb.HSet(ctx, "test:{fleet}:adapters", "demo-v3", adapter)
		rdb.HSet(ctx, "test:{fleet}:queues", "w", count)
		rdb.HSet(ctx, "test:{fleet}:usage", "input/gpu-1", count)
		rdb.XAdd(ctx, &redis.XAddArgs{Stream: "test:{fleet}:samples", ID: "1767323044000-1", Values: []any{"s", sample}})
		for name, read := range map[string]func() (any, error){
			"list":   func() (any, error) { return r.List(ctx) },
			"get":    func() (any, error) { return r.Get(ctx, "gpu-1") },
			"wanted": func() (any, error) { return r.Wanted(ctx) },
			"newest": func() (any, error) { return r.Newest(ctx, "demo") },
			"queued": func() (any, error) { return workers.Queued(ctx) },
			"usage":  func() (any, error) { return workers.Usage(ctx, "gpu-1") },
			"view":   func() (any, error) { return samples.View(ctx, "", now.Add(-time.Minute), now) },
			"want":   func() (any, error) { return nil, r.Want(ctx, fleet.Adapter{Name: "demo-v3", Path: "/adapters/3"}) },
			"loaded": func() (any, error) { return nil, r.Loaded(ctx, "gpu-1", "demo-v3") },
			"drain":  func() (any, error) { return nil, r.Drain(ctx, "gpu-1", true) },
			"report": func() (any, error) {
				return nil, workers.ReportUsage(ctx, "w", nil, map[rollout.EngineID]rollout.Usage{"gpu-1": {InputTokens: 1}})
			},
		} {
			got, err := read()
			if err != nil {
				continue
			}
			if _, err := json.Marshal(got); err != nil {
				t.Errorf("%s: %+v: %v", name, got, err)
			}
		}
	})
}
