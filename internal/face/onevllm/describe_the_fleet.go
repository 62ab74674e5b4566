package onevllm

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/kit/cache"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/store/loranames"
)

// ready is the engines that serve the run's model now.
func (c *call) ready() ([]enginestate.Engine, error) {
	all, err := c.Fleet.Engines(c.r.Context())
	if err != nil {
		return nil, err
	}
	var ready []enginestate.Engine
	for _, e := range all {
		if e.State == enginestate.EngineReady && slices.Contains(e.Models, c.status.Spec.Model) {
			ready = append(ready, e)
		}
	}
	if len(ready) == 0 {
		return nil, rollout.Refuse(rollout.Unavailable, "no engine that serves %s is ready: %d in the fleet",
			c.status.Spec.Model, len(all))
	}
	return ready, nil
}

func (c *call) health() error {
	_, err := c.ready()
	return err
}

func (c *call) version() error {
	ready, err := c.ready()
	if err != nil {
		return err
	}
	return c.tell(map[string]string{"version": ready[0].Version})
}

// models lists the base model, and the versions that serve by the client's names for them, and by the engines' own.
func (c *call) models() error {
	cards, err := c.cards.Of(c.r.Context(), c.run, cache.Younger[[]vllm.Model](cardsAge), c.askModels)
	if err != nil {
		return err
	}
	names, _, err := c.Names.All(c.r.Context(), c.run)
	if err != nil {
		return err
	}
	maps.DeleteFunc(names, func(_ string, n loranames.Loaded) bool { return c.retired(n.Version) })
	base := vllm.Model{ID: c.status.Spec.Model, Root: c.status.Spec.Model}
	for _, card := range cards {
		if card.ID == base.ID {
			base = card
		}
	}
	longest := any(base.MaxModelLen)
	if base.MaxModelLen == 0 {
		longest = nil
	}
	data := []any{card(base.ID, base.Root, nil, longest, c.status.StartedAt.Unix())}
	for _, p := range c.status.Policies {
		if p.State == runstatus.PolicyServing && !named(names, p.Version) {
			names[p.Adapter] = loranames.Loaded{Path: p.Path, At: p.PublishedAt.Unix()}
		}
	}
	byAge := func(a, b string) int { return cmp.Or(cmp.Compare(names[a].At, names[b].At), strings.Compare(a, b)) }
	for _, name := range slices.SortedFunc(maps.Keys(names), byAge) {
		data = append(data, card(name, names[name].Path, base.ID, nil, names[name].At))
	}
	return c.tell(map[string]any{"object": "list", "data": data})
}

func named(names map[string]loranames.Loaded, v rollout.PolicyVersion) bool {
	for _, n := range names {
		if n.Version == v {
			return true
		}
	}
	return false
}

func card(id, root string, parent, longest any, created int64) map[string]any {
	return map[string]any{"id": id, "object": "model", "created": created, "owned_by": "vllm", "root": root,
		"parent": parent, "max_model_len": longest, "permission": []any{}}
}

// first is what the first engine answers that answers at all.
func first[T any](c *call, question func(*vllm.Client) (T, error)) (answer T, err error) {
	ready, err := c.ready()
	if err != nil {
		return answer, err
	}
	return vllm.First(ready, c.Fleet.Client, question)
}

func (c *call) askModels(ctx context.Context) ([]vllm.Model, error) {
	return first(c, func(client *vllm.Client) ([]vllm.Model, error) { return client.Models(ctx) })
}

// serverInfo tells what trainers look for. An engine tells more of itself where it may (VLLM_SERVER_DEV_MODE).
func (c *call) serverInfo() error {
	ready, err := c.ready()
	if err != nil {
		return err
	}
	info, err := first(c, func(client *vllm.Client) (map[string]any, error) { return client.ServerInfo(c.r.Context()) })
	if err != nil {
		info = map[string]any{}
	}
	part := func(of map[string]any, name string) map[string]any {
		inner, is := of[name].(map[string]any)
		if !is {
			inner = map[string]any{}
			of[name] = inner
		}
		return inner
	}
	whole := part(info, "vllm_config")
	part(whole, "parallel_config")["data_parallel_size"] = 1
	model := part(whole, "model_config")
	model["model"] = c.status.Spec.Model
	if model["dtype"] == nil {
		model["dtype"] = "auto"
	}
	slots := cmp.Or(enginestate.FewestSlots(ready), c.status.Spec.Slots())
	lora := part(whole, "lora_config")
	lora["max_loras"] = slots
	if lora["max_lora_rank"] == nil {
		lora["max_lora_rank"] = c.status.Spec.Adapters.Rank
	}
	return c.tell(info)
}

// metrics sums what the engines count. One that does not answer is left out: counters fall then, as they do where an
// engine is restarted.
func (c *call) metrics() error {
	ready, err := c.ready()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), askTimeout)
	defer cancel()
	sum, asked := vllm.Sample{Finished: map[string]float64{}}, sync.WaitGroup{}
	var mu sync.Mutex
	for _, e := range ready {
		asked.Go(func() {
			client, err := c.Fleet.Client(e)
			if err != nil {
				return
			}
			s, err := client.Metrics(ctx)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			sum.Running += s.Running
			sum.Waiting += s.Waiting
			sum.KVUsage += s.KVUsage / float64(len(ready))
			sum.PromptTokens += s.PromptTokens
			sum.GenerationTokens += s.GenerationTokens
			sum.PrefixQueries += s.PrefixQueries
			sum.PrefixHits += s.PrefixHits
			sum.Preemptions += s.Preemptions
			for reason, n := range s.Finished {
				sum.Finished[reason] += n
			}
		})
	}
	asked.Wait()
	var text strings.Builder
	model := fmt.Sprintf(`engine="0",model_name=%q`, c.status.Spec.Model)
	tell := func(name, kind, labels string, value float64) {
		fmt.Fprintf(&text, "# TYPE vllm:%s %s\nvllm:%s{%s} %g\n", name, kind, name, labels, value)
	}
	tell("num_requests_running", "gauge", model, sum.Running)
	tell("num_requests_waiting", "gauge", model, sum.Waiting)
	tell("kv_cache_usage_perc", "gauge", model, sum.KVUsage)
	tell("prompt_tokens_total", "counter", model, sum.PromptTokens)
	tell("generation_tokens_total", "counter", model, sum.GenerationTokens)
	tell("prefix_cache_queries_total", "counter", model, sum.PrefixQueries)
	tell("prefix_cache_hits_total", "counter", model, sum.PrefixHits)
	tell("num_preemptions_total", "counter", model, sum.Preemptions)
	fmt.Fprintln(&text, "# TYPE vllm:request_success_total counter")
	for _, reason := range slices.Sorted(maps.Keys(sum.Finished)) {
		fmt.Fprintf(&text, "vllm:request_success_total{%s,finished_reason=%q} %g\n", model, reason, sum.Finished[reason])
	}
	return c.say(text.String())
}

// resetCache has nothing to do: no two versions ever have one name at an engine.
func (c *call) resetCache() error { return c.tell(map[string]bool{"success": true}) }
