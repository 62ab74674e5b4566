package worker

import (
	"context"

	"github.com/millrace/millrace/internal/engine/dispatch/live"
	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/observe/otel"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// tracedEngine makes a span of each call for a turn that is traced.
type tracedEngine struct {
	*vllm.Client
	engine enginestate.Engine
	otel   *otel.Exporter
}

// traced is a client that makes spans of its calls, where spans are exported.
func traced(traces *otel.Exporter, engine enginestate.Engine, client *vllm.Client) live.Engine {
	if !traces.Traces() {
		return client
	}
	return tracedEngine{client, engine, traces}
}

func (e tracedEngine) Complete(ctx context.Context, req rollout.Request) (rollout.Completion, error) {
	ctx, end := e.otel.StartCall(ctx, e.engine, &req)
	answer, err := e.Client.Complete(ctx, req)
	end(&answer, err)
	return answer, err
}
