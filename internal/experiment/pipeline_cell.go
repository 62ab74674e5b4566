package experiment

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// pipelineMetrics is what is measured in the cells of a pipeline, and in no others.
var pipelineMetrics = []string{"onset", "prefill", "total", "staleness", "starved", "busy", "in_flight", "engine_hours",
	"engines_mean", "dropped"}

// measures reports whether a metric is measured in a cell.
func (c *Cell) measures(metric string) bool {
	ofPipeline := slices.Contains(pipelineMetrics, metric) || strings.HasPrefix(metric, "step_") ||
		strings.HasPrefix(metric, "ready_")
	return ofPipeline == (c.Setup != nil)
}

// playPipeline plays a whole pipeline, and returns its metrics by name.
func (c *Cell) playPipeline(context.Context) (map[string]float64, error) {
	return nil, errors.New("pipelines cannot be simulated yet")
}
