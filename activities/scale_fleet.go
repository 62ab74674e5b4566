package activities

import (
	"context"
	"encoding/json"

	"github.com/millrace/millrace/internal/scaling"
)

// Sampler measures what scaling is decided on.
type Sampler interface {
	// Sample is the fleet and its runs since the sample before, which left memory; nil memory: there was none. Its
	// engines are counted from the fleet's members. What it must remember for the next one is JSON and bounded, some
	// KiB: it is kept in a workflow's history.
	Sample(ctx context.Context, memory json.RawMessage) (scaling.Sample, json.RawMessage, error)
}
