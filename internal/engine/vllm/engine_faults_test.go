package vllm_test

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/simulate/enginesim"
)

// TestFaults: each way in which a simulated engine can misbehave is understood.
func TestFaults(t *testing.T) {
	t.Parallel()
	cfg := enginesim.DefaultConfig()
	cfg.Speed = 100
	engine := startSim(t, cfg)
	client, err := vllm.New(vllm.Config{BaseURL: engine.url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	x := &target{client: client, url: engine.url, model: cfg.Model}
	for _, tt := range []struct {
		fault enginesim.Fault
		code  rollout.Code
	}{
		{enginesim.Fault{Kind: enginesim.FaultDrop}, rollout.CodeEngineGone},
		{enginesim.Fault{Kind: enginesim.FaultHang}, rollout.CodeTimeout},
		{enginesim.Fault{Kind: enginesim.FaultTrickle, Every: 5 * time.Millisecond}, rollout.CodeTimeout},
		{enginesim.Fault{Kind: enginesim.FaultOverload}, rollout.CodeOverloaded},
		{enginesim.Fault{Kind: enginesim.FaultScaling}, rollout.CodeOverloaded},
		{enginesim.Fault{Kind: enginesim.FaultStatus, Status: 429}, rollout.CodeOverloaded},
		{enginesim.Fault{Kind: enginesim.FaultStatus, Status: 502}, rollout.CodeEngineError},
		{enginesim.Fault{Kind: enginesim.FaultDead}, rollout.CodeEngineDead},
		{enginesim.Fault{Kind: enginesim.FaultTruncate, Bytes: 200}, rollout.CodeBadAnswer},
	} {
		if err := engine.Inject(t.Context(), tt.fault); err != nil {
			t.Fatal(err)
		}
		req := x.ask(4)
		if tt.code == rollout.CodeTimeout {
			req.Timeout = rollout.Duration(100 * time.Millisecond)
		}
		_, err := client.Complete(t.Context(), req)
		if rollout.CodeOf(err) != tt.code {
			t.Errorf("%s: got %v, want code %s", tt.fault.Kind, err, tt.code)
		}
		if tt.fault.Kind == enginesim.FaultDead {
			wantCode(t, client.Health(t.Context()), rollout.CodeEngineDead)
		}
		if err := engine.Restart(t.Context(), 0); err != nil { // also ends what hangs
			t.Fatal(err)
		}
	}
	x.complete(t, x.ask(4))
}
