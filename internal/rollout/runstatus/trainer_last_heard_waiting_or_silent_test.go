package runstatus

import (
	"testing"
	"time"
)

// TestSilentTrainer: a trainer is silent when its own steps do not explain that nothing is heard of it.
func TestSilentTrainer(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 24, 3, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, tt := range []struct {
		name string
		of   TrainerActivity
		want bool
	}{
		{"nobody has trained yet", TrainerActivity{}, false},
		{"it has only announced itself", TrainerActivity{Heard: ago(time.Hour)}, false},
		{"it trains a step of a minute for 4 minutes", TrainerActivity{Step: 3, Heard: ago(4 * time.Minute), UsualSec: 60},
			false},
		{"for 6 minutes", TrainerActivity{Step: 3, Heard: ago(6 * time.Minute), UsualSec: 60}, true},
		{"steps of a second, half a minute", TrainerActivity{Step: 3, Heard: ago(30 * time.Second), UsualSec: 1}, false},
		{"steps of a second, two minutes", TrainerActivity{Step: 3, Heard: ago(2 * time.Minute), UsualSec: 1}, true},
		{"its first step", TrainerActivity{Step: 1, Heard: ago(20 * time.Minute)}, false},
		{"its first step takes an hour", TrainerActivity{Step: 1, Heard: ago(time.Hour)}, true},
		{"it sends heartbeats in a long step", TrainerActivity{Step: 9, Heard: ago(9 * time.Second), Beats: true,
			UsualSec: 1}, false},
		{"its heartbeats end", TrainerActivity{Step: 9, Heard: ago(2 * time.Minute), Beats: true, UsualSec: 3600}, true},
		{"it waits for a batch", TrainerActivity{Step: 3, Heard: ago(time.Hour), First: ago(time.Hour),
			Last: ago(time.Second), UsualSec: 1}, false},
		{"it waited, and is gone", TrainerActivity{Step: 3, Heard: ago(time.Hour), First: ago(time.Hour),
			Last: ago(3 * time.Minute), UsualSec: 1}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, silent := tt.of.Silent(now); silent != tt.want {
				t.Errorf("silent: %v, want %v", silent, tt.want)
			}
		})
	}
}
