package worker

import (
	"context"

	"github.com/millrace/millrace/internal/dispatch/live"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry/otel"
	"github.com/millrace/millrace/internal/vllm"
)

// tracedEngine makes a span of each call for a turn that is traced. A call for several turns at once is none of one
// turn, and has no span.
type tracedEngine struct {
	*vllm.Client
	engine rollout.Engine
	otel   *otel.Exporter
}

var _ live.Batcher = tracedEngine{}

// traced is a client that makes spans of its calls, where spans are exported.
func traced(traces *otel.Exporter, engine rollout.Engine, client *vllm.Client) live.Engine {
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
