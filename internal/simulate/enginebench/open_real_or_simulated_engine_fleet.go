package enginebench

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/simulate/enginesim"
)

// Engine is one engine under measurement.
type Engine struct {
	ID     rollout.EngineID
	url    string
	Client *vllm.Client
	// busy is how many seconds the engine has computed, of how many, since some moment.
	busy func(ctx context.Context) (busy, of float64, err error)
}

// Fleet is the engines of one count. All serve the same model.
type Fleet struct {
	Engines []*Engine
	Model   string
	Stop    func() // ends simulated engines and samplers, and waits for them
}

// OpenFleet connects to the first n engines that cfg names, or starts n simulated ones.
func OpenFleet(ctx context.Context, cfg Config, n int) (*Fleet, error) {
	if len(cfg.URLs) > 0 {
		return connect(ctx, cfg, cfg.URLs[:n])
	}
	return simulate(ctx, cfg, n)
}

// adapterName is served by simulated engines. The base model would be a quarter faster than what a trainer's
// engines serve.
const adapterName = "bench-v1"

// simulate starts n engines like those of the reference: an A100 each, with a LoRA adapter loaded.
func simulate(ctx context.Context, cfg Config, n int) (*Fleet, error) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	f := &Fleet{Model: adapterName, Stop: func() { cancel(); running.Wait() }}
	for i := range n {
		sim := enginesim.DefaultConfig()
		sim.Speed, sim.Seed = cfg.Speed, uint64(i+1)
		e, err := enginesim.New(sim)
		if err != nil {
			f.Stop()
			return nil, err
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			f.Stop()
			return nil, fmt.Errorf("listen for a simulated engine: %w", err)
		}
		running.Go(func() { _ = e.Serve(ctx, l) }) // an engine that dies fails the calls made to it
		if err := f.add(i, "http://"+l.Addr().String(), modelTime(e)); err != nil {
			f.Stop()
			return nil, err
		}
	}
	if err := f.loadAdapter(ctx); err != nil {
		f.Stop()
		return nil, err
	}
	return f, nil
}

func (f *Fleet) add(i int, url string, busy func(context.Context) (float64, float64, error)) error {
	client, err := vllm.New(vllm.Config{BaseURL: url})
	if err != nil {
		return err
	}
	f.Engines = append(f.Engines, &Engine{ID: rollout.EngineID(fmt.Sprintf("engine-%d", i)), url: url,
		Client: client, busy: busy})
	return nil
}

// loadAdapter loads an adapter of the reference's rank. It has no tensors; a simulated engine only looks at their
// names.
func (f *Fleet) loadAdapter(ctx context.Context) error {
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
	for _, e := range f.Engines {
		g.Go(func() error { return e.Client.LoadAdapter(ctx, f.Model, dir) })
	}
	return g.Wait()
}

// connect opens real engines.
func connect(ctx context.Context, cfg Config, urls []string) (*Fleet, error) {
	ctx, cancel := context.WithCancel(ctx)
	var sampling sync.WaitGroup
	f := &Fleet{Model: cfg.Model, Stop: func() { cancel(); sampling.Wait() }}
	for i, url := range urls {
		s := &sampler{}
		if err := f.add(i, url, s.busy); err != nil {
			f.Stop()
			return nil, err
		}
		e := f.Engines[i]
		if err := f.meet(ctx, e); err != nil {
			f.Stop()
			return nil, err
		}
		sampling.Go(func() { s.run(ctx, e.Client) })
	}
	return f, nil
}

// meet checks that an engine serves the model; the first one decides which if nobody has.
func (f *Fleet) meet(ctx context.Context, e *Engine) error {
	models, err := e.Client.Models(ctx)
	if err != nil {
		return fmt.Errorf("engine %s: %w", e.url, err)
	}
	for _, m := range models {
		f.Model = cmp.Or(f.Model, m.ID)
		if m.ID == f.Model {
			return nil
		}
	}
	return fmt.Errorf("engine %s does not serve %q", e.url, f.Model)
}

// Listed is the fleet as the dispatcher wants to be told of it.
func (f *Fleet) Listed(concurrency int) []enginestate.Engine {
	list := make([]enginestate.Engine, 0, len(f.Engines))
	for _, e := range f.Engines {
		list = append(list, enginestate.Engine{ID: e.ID, URL: e.url, State: enginestate.EngineReady, MaxInFlight: concurrency,
			Models: []string{f.Model}})
	}
	return list
}
