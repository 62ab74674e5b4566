package fleet

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

func TestUsageCheck(t *testing.T) {
	t.Parallel()
	at := func(sec int, in, out float64, reportedIn, reportedOut int64) usageReading {
		return usageReading{
			at: time.Unix(int64(sec), 0), counted: vllm.Sample{PromptTokens: in, GenerationTokens: out},
			reported: rollout.Usage{InputTokens: reportedIn, OutputTokens: reportedOut},
		}
	}
	for _, tt := range []struct {
		name            string
		readings        []usageReading
		in, out, window float64
	}{
		{"nothing known", nil, 0, 0, 0},
		{"opened", []usageReading{at(1, 500, 50, 7, 7)}, 0, 0, 0},
		{"what was before does not count", []usageReading{at(1, 500, 50, 0, 0), at(3, 700, 60, 200, 10)}, 0, 0, 2},
		{"somebody else too", []usageReading{at(1, 0, 0, 0, 0), at(2, 100, 20, 100, 20), at(5, 400, 40, 300, 30)},
			0.25, 0.25, 4},
		{"only somebody else", []usageReading{at(1, 0, 0, 0, 0), at(2, 100, 20, 0, 0)}, 1, 1, 1},
		{"under way when it was opened", []usageReading{at(1, 100, 8, 0, 0), at(2, 100, 10, 100, 10)}, -1, -0.8, 1},
		{"restarted", []usageReading{at(1, 900, 90, 0, 0), at(2, 10, 1, 900, 90), at(4, 110, 21, 1000, 110)}, 0, 0, 2},
		{"restarted and busier at once", []usageReading{at(1, 900, 90, 0, 0), at(2, 950, 1, 900, 90)}, 0, 0, 0},
		{"idle", []usageReading{at(1, 900, 90, 5, 5), at(9, 900, 90, 5, 5)}, 0, 0, 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var c usageCheck
			for _, r := range tt.readings {
				c.add(r)
			}
			var load enginestate.EngineLoad
			c.writeTo(&load)
			if load.UsageInputError != tt.in || load.UsageOutputError != tt.out || load.UsageWindowSec != tt.window {
				t.Errorf("input %v, output %v over %v s; want %v, %v over %v s",
					load.UsageInputError, load.UsageOutputError, load.UsageWindowSec, tt.in, tt.out, tt.window)
			}
		})
	}
}

func TestMeanQueue(t *testing.T) {
	t.Parallel()
	before := rollout.Usage{Requests: 10, QueueSec: 5}
	for _, tt := range []struct {
		name  string
		after rollout.Usage
		want  float64
	}{
		{"no answers", before, 0},
		{"answers", rollout.Usage{Requests: 14, QueueSec: 7}, 0.5},
		{"total forgotten", rollout.Usage{Requests: 1, QueueSec: 1}, 0},
	} {
		if got := meanQueue(before, tt.after); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}
