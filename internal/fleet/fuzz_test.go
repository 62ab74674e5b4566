package fleet

import (
	"context"
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
)

// FuzzAdapterConfig: an adapter is let through only if it says a rank that the engines have room for, and modules.
func FuzzAdapterConfig(f *testing.F) {
	for _, config := range []string{
		`{"alpha_pattern":{},"auto_mapping":null,"base_model_name_or_path":"Qwen/Qwen2.5-7B-Instruct","bias":"none","fan_in_fan_out":false,"inference_mode":true,"init_lora_weights":true,"layers_to_transform":null,"lora_alpha":32,"lora_dropout":0.0,"modules_to_save":null,"peft_type":"LORA","r":16,"rank_pattern":{},"revision":null,"target_modules":["q_proj","v_proj"],"task_type":"CAUSAL_LM","use_dora":false,"use_rslora":false}`,
		`{"r":8,"rank_pattern":{"q_proj":64},"target_modules":"all-linear"}`,
		`{"peft_type":"IA3","r":-1,"use_dora":true,"bias":"all","modules_to_save":["lm_head"],"target_modules":[]}`,
		`{"r":9223372036854775808}`, `{"r":1e2,"target_modules":["x"]}`, `{"r":8,`, `null`, `[]`, "\xff",
	} {
		f.Add([]byte(config), 32)
	}
	f.Fuzz(func(t *testing.T, raw []byte, rank int) {
		if err := checkAdapter(raw, rank); err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Error("refused without a word")
			}
			return
		}
		var said struct {
			Rank    int             `json:"r"`
			Ranks   map[string]int  `json:"rank_pattern"`
			Targets json.RawMessage `json:"target_modules"`
		}
		if err := json.Unmarshal(raw, &said); err != nil {
			t.Fatalf("let through %q: %v", raw, err)
		}
		if said.Rank < 1 || rank > 0 && said.Rank > rank || len(said.Targets) == 0 {
			t.Errorf("let through %q with room for rank %d", raw, rank)
		}
		for module, r := range said.Ranks {
			if rank > 0 && r > rank {
				t.Errorf("let through rank %d of %s with room for %d", r, module, rank)
			}
		}
	})
}

// FuzzEngineList: every engine of a list that is taken can be a member, and one reading of the list brings in all
// of it.
func FuzzEngineList(f *testing.F) {
	for _, list := range []string{
		"http://10.0.0.5:8000\nhttp://10.0.0.6:8000 max_in_flight=64 id=gpu7\n",
		"# all of rack 3\r\n\r\nhttps://Host/pool/v1  id=a # the fast one\r\n",
		"http://[::1]:8000\nhttp://[fe80::1%25eth0]:8000 max_in_flight=0",
		"http://a:1 max_in_flight=-1", "http://a:1 weight=3", "10.0.0.5:8000", "http://a:1 id=", "http://a:1\nhttp://a:1/v1/\n",
		strings.Repeat("x", 70_000),
	} {
		f.Add([]byte(list))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		listed, err := parseList(data)
		if err != nil {
			return
		}
		var members []Member
		for _, e := range listed {
			m, err := NewMember(e, time.Time{})
			if err != nil {
				t.Fatalf("%q lists %+v: %v", data, e, err)
			}
			if !engineIDPattern.MatchString(string(m.ID)) || m.MaxInFlight < 1 {
				t.Errorf("%q makes %+v", data, m)
			}
			m.Source = "file:/engines"
			members = append(members, m)
		}
		if join, leave := Difference(members, listed, "file:/engines"); len(join)+len(leave) > 0 {
			t.Errorf("%q, read again: join %v, leave %v", data, join, leave)
		}
	})
}

// FuzzRegistryRows: whatever lies in the fleet's hashes, reading it is an error or a value that the API can write.
func FuzzRegistryRows(f *testing.F) {
	const (
		member      = `{"id":"gpu-1","url":"http://10.0.0.5:8000","max_in_flight":64,"added_at":"2026-01-02T03:04:05Z"}`
		observation = `{"state":"ready","since":"2026-01-02T03:04:05Z","models":["m"],"adapters":["demo-v3"],"version":"0.11.0","load":{"running":3,"kv_usage":0.25},"adapter_slots":4}`
		adapter     = `{"name":"demo-v3","path":"/adapters/3","run":"demo","version":3}`
		sample      = `{"w":1,"n":2,"b":1,"r":3.5,"l":128,"q":4,"i":1000,"o":60}`
	)
	f.Add(member, observation, adapter, sample, "17")
	f.Add(`{"id":"gpu-1","drain":true,"leave":true,"now":true}`, `{"state":"lost"}`, `{"version":-9223372036854775808}`, `{"w":1e308,"r":1e308,"i":1e308}`, "-1")
	f.Add(`null`, `null`, `null`, `null`, "")
	f.Add(`{`, `"`, `[]`, `{"w":"1"}`, "1e3")
	f.Add(member, `{"since":"0000-01-01T00:00:00Z","load":{"running":-1}}`, adapter, `{"w":-1e308}`, "9223372036854775807")
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	rdb := fuzzRedis(f)
	r := NewRegistry(rdb, "test", func() time.Time { return now })
	samples := NewSampler(rdb, "test")
	f.Fuzz(func(t *testing.T, member, observation, adapter, sample, count string) {
		ctx := t.Context()
		rdb.FlushAll(ctx)
		if err := r.Announce(ctx, "w", time.Minute); err != nil {
			t.Fatal(err)
		}
		rdb.HSet(ctx, r.membersKey(), "gpu-1", member)
		rdb.HSet(ctx, r.observedKey(), "gpu-1", observation)
		rdb.HSet(ctx, r.wantedKey(), "demo-v3", adapter)
		rdb.HSet(ctx, r.queuesKey(), "w", count)
		rdb.HSet(ctx, r.usageKey(), "input/gpu-1", count)
		rdb.XAdd(ctx, &redis.XAddArgs{Stream: samples.key, ID: "1767323044000-1", Values: []any{"s", sample}})
		for name, read := range map[string]func() (any, error){
			"list":   func() (any, error) { return r.List(ctx) },
			"get":    func() (any, error) { return r.Get(ctx, "gpu-1") },
			"wanted": func() (any, error) { return r.Wanted(ctx) },
			"newest": func() (any, error) { return r.Newest(ctx, "demo") },
			"queued": func() (any, error) { return r.Queued(ctx) },
			"usage":  func() (any, error) { return r.Usage(ctx, "gpu-1") },
			"view":   func() (any, error) { return samples.View(ctx, now.Add(-time.Minute), now) },
			"want":   func() (any, error) { return nil, r.Want(ctx, Adapter{Name: "demo-v3", Path: "/adapters/3"}) },
			"loaded": func() (any, error) { return nil, r.Loaded(ctx, "gpu-1", "demo-v3") },
			"drain":  func() (any, error) { return nil, r.Drain(ctx, "gpu-1", true) },
			"report": func() (any, error) {
				return nil, r.ReportUsage(ctx, "w", nil, map[rollout.EngineID]rollout.Usage{"gpu-1": {InputTokens: 1}})
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

// fuzzRedis is an embedded Redis without a network.
func fuzzRedis(f *testing.F) redis.UniversalClient {
	f.Helper()
	server := miniredis.NewMiniRedis()
	rdb := redis.NewClient(&redis.Options{
		Addr:            "127.0.0.1:6379", // not dialled, but a host name would be looked up
		Dialer:          func(context.Context, string, string) (net.Conn, error) { return server.Dial() },
		DisableIdentity: true,
	})
	f.Cleanup(func() {
		_ = rdb.Close()
		server.Close()
	})
	return rdb
}
