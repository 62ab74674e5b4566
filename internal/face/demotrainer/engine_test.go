package demotrainer_test

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/face/demotrainer"
	"github.com/millrace/millrace/internal/simulate/enginesim"
)

// TestEnginesTakeItsAdapters loads what a run of the trainer published into an engine that checks files as vLLM does.
func TestEnginesTakeItsAdapters(t *testing.T) {
	t.Parallel()
	s := newService(2)
	cfg := s.config(t)
	cfg.Speed = 1e6
	if err := demotrainer.Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	sim := enginesim.DefaultConfig()
	sim.Speed = 1000
	engine, err := enginesim.New(sim)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	server := httptest.NewServer(engine.Handler())
	t.Cleanup(func() {
		server.Close()
		stop()
		<-ended
	})
	client, err := vllm.New(vllm.Config{BaseURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for version, path := range s.policies {
		if err := client.LoadAdapter(ctx, cfg.Run+"-v"+string(rune('0'+version)), path); err != nil {
			t.Errorf("version %d: %v", version, err)
		}
	}
}
