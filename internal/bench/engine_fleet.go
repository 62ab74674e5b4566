package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/enginesim"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/vllm"
)

// engine is one engine under measurement.
type engine struct {
	id     rollout.EngineID
	url    string
	client *vllm.Client
	// busy is how many seconds the engine has computed, of how many, since some moment.
	busy func(ctx context.Context) (busy, of float64, err error)
}

// fleet is the engines of one count. All serve the same model.
type fleet struct {
	engines []*engine
	model   string
	stop    func() // ends simulated engines and samplers, and waits for them
}

// openFleet connects to the first n engines that cfg names, or starts n simulated ones.
func openFleet(ctx context.Context, cfg Config, n int) (*fleet, error) {
	if len(cfg.URLs) > 0 {
		return connect(ctx, cfg, cfg.URLs[:n])
	}
	return simulate(ctx, cfg, n)
}

// adapterName is served by simulated engines. The base model would be a quarter faster than what a trainer's
// engines serve.
const adapterName = "bench-v1"

// simulate starts n engines like those of the reference: an A100 each, with a LoRA adapter loaded.
func simulate(ctx context.Context, cfg Config, n int) (*fleet, error) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	f := &fleet{model: adapterName, stop: func() { cancel(); running.Wait() }}
	for i := range n {
		sim := enginesim.DefaultConfig()
		sim.Speed, sim.Seed = cfg.Speed, uint64(i+1)
		e, err := enginesim.New(sim)
		if err != nil {
			f.stop()
			return nil, err
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			f.stop()
			return nil, fmt.Errorf("listen for a simulated engine: %w", err)
		}
		running.Go(func() { _ = e.Serve(ctx, l) }) // an engine that dies fails the calls made to it
		if err := f.add(i, "http://"+l.Addr().String(), modelTime(e)); err != nil {
			f.stop()
			return nil, err
		}
	}
	if err := f.loadAdapter(ctx); err != nil {
		f.stop()
		return nil, err
	}
	return f, nil
}

// modelTime reads a simulated engine's own measure of its time, which is exact.
func modelTime(e *enginesim.Engine) func(context.Context) (float64, float64, error) {
	return func(ctx context.Context) (float64, float64, error) {
		s, err := e.Stats(ctx)
		return s.Busy, s.Elapsed, err
	}
}

func (f *fleet) add(i int, url string, busy func(context.Context) (float64, float64, error)) error {
	client, err := vllm.New(vllm.Config{BaseURL: url})
	if err != nil {
		return err
	}
	f.engines = append(f.engines, &engine{id: rollout.EngineID(fmt.Sprintf("engine-%d", i)), url: url,
		client: client, busy: busy})
	return nil
}

// loadAdapter loads an adapter of the reference's rank. It has no tensors; a simulated engine only looks at their
// names.
func (f *fleet) loadAdapter(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "millrace-bench-")
	if err != nil {
		return fmt.Errorf("make an adapter: %w", err)
	}
	defer os.RemoveAll(dir)
	header := "{}"
	for name, content := range map[string][]byte{
		"adapter_config.json":       []byte(`{"peft_type": "LORA", "r": 32, "lora_alpha": 64, "target_modules": ["q_proj", "v_proj"]}`),
		"adapter_model.safetensors": append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return fmt.Errorf("make an adapter: %w", err)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, e := range f.engines {
		g.Go(func() error { return e.client.LoadAdapter(ctx, f.model, dir) })
	}
	return g.Wait()
}

// connect opens real engines.
func connect(ctx context.Context, cfg Config, urls []string) (*fleet, error) {
	ctx, cancel := context.WithCancel(ctx)
	var sampling sync.WaitGroup
	f := &fleet{model: cfg.Model, stop: func() { cancel(); sampling.Wait() }}
	for i, url := range urls {
		s := &sampler{}
		if err := f.add(i, url, s.busy); err != nil {
			f.stop()
			return nil, err
		}
		e := f.engines[i]
		if err := f.meet(ctx, e); err != nil {
			f.stop()
			return nil, err
		}
		sampling.Go(func() { s.run(ctx, e.client) })
	}
	return f, nil
}

// meet checks that an engine serves the model; the first one decides which if nobody has.
func (f *fleet) meet(ctx context.Context, e *engine) error {
	models, err := e.client.Models(ctx)
	if err != nil {
		return fmt.Errorf("engine %s: %w", e.url, err)
	}
	for _, m := range models {
		if f.model == "" {
			f.model = m.ID
		}
		if m.ID == f.model {
			return nil
		}
	}
	return fmt.Errorf("engine %s does not serve %q", e.url, f.model)
}

// sampler stands in for the measure of its time that a real engine does not give: it looks often whether requests run.
type sampler struct {
	mu         sync.Mutex
	busySec    float64
	elapsedSec float64
}

const sampleEvery = 200 * time.Millisecond

func (s *sampler) run(ctx context.Context, client *vllm.Client) {
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		m, err := client.Metrics(ctx)
		if err != nil {
			continue // the next look may succeed; no look, no time
		}
		s.mu.Lock()
		s.elapsedSec += sampleEvery.Seconds()
		if m.Running > 0 {
			s.busySec += sampleEvery.Seconds()
		}
		s.mu.Unlock()
	}
}

func (s *sampler) busy(context.Context) (float64, float64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busySec, s.elapsedSec, nil
}

// listed is the fleet as the dispatcher wants to be told of it.
func (f *fleet) listed(concurrency int) []rollout.Engine {
	list := make([]rollout.Engine, 0, len(f.engines))
	for _, e := range f.engines {
		list = append(list, rollout.Engine{ID: e.id, URL: e.url, State: rollout.EngineReady, MaxInFlight: concurrency,
			Models: []string{f.model}})
	}
	return list
}

// reading is an engine's counters at a moment.
type reading struct {
	at            time.Time
	input, output float64 // tokens
	cached        float64 // of the input, found in the prefix cache
	busy, of      float64 // seconds, on a clock of the engine's own
}

func (e *engine) read(ctx context.Context) (reading, error) {
	m, err := e.client.Metrics(ctx)
	if err != nil {
		return reading{}, fmt.Errorf("engine %s: %w", e.url, err)
	}
	r := reading{at: time.Now(), input: m.PromptTokens, output: m.GenerationTokens, cached: m.PrefixHits}
	if r.busy, r.of, err = e.busy(ctx); err != nil {
		return reading{}, fmt.Errorf("engine %s: %w", e.url, err)
	}
	return r, nil
}

// readAll reads all engines at about the same moment.
func (f *fleet) readAll(ctx context.Context) ([]reading, error) {
	all := make([]reading, len(f.engines))
	g, ctx := errgroup.WithContext(ctx)
	for i, e := range f.engines {
		g.Go(func() (err error) {
			all[i], err = e.read(ctx)
			return err
		})
	}
	return all, g.Wait()
}
