package dispatch

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// TestAdaptersShareEngines: however many adapters there are, none is without an engine and no engine has more than
// its slots while another has one left.
func TestAdaptersShareEngines(t *testing.T) {
	t.Parallel()
	for adapterCount := 1; adapterCount <= 12; adapterCount++ {
		for engineCount := 1; engineCount <= 6; engineCount++ {
			for slots := 1; slots <= 4; slots++ {
				a := adapters{lastUse: map[string]time.Time{}}
				var engines []*engine
				for i := range engineCount {
					e := newEngine(rollout.EngineID(rune('a'+i)), "", time.Time{})
					e.models, e.adapters = map[string]bool{}, map[string]bool{}
					engines = append(engines, e)
				}
				for i := range adapterCount {
					m := string(rune('A' + i))
					a.lastUse[m] = time.Time{}
					for _, e := range engines {
						e.models[m], e.adapters[m] = true, true
					}
				}
				a.place(engines, slots)
				if adapterCount <= slots {
					if a.places != nil {
						t.Errorf("%d adapters in %d slots are placed", adapterCount, slots)
					}
					continue
				}
				taken := map[rollout.EngineID]int{}
				for m, at := range a.places {
					if len(at) == 0 {
						t.Errorf("adapter %s has no engine", m)
					}
					for _, id := range at {
						taken[id]++
					}
				}
				most := max(slots, (adapterCount+engineCount-1)/engineCount)
				for id, n := range taken {
					if n > most {
						t.Errorf("%d adapters, %d engines of %d slots: %s has %d", adapterCount, engineCount, slots, id, n)
					}
				}
			}
		}
	}
}
