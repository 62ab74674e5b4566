package saturation

import (
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/kit/processortime"
)

// Result is what the service has done under growing load.
type Result struct {
	Config Config `json:"-"`
	processortime.Machine
	Levels []Level `json:"levels"`
}

// Any reports whether there is anything to tell.
func (r Result) Any() bool { return len(r.Levels) > 0 }

// Level is one level of load.
type Level struct {
	Games       int     `json:"games_in_play"` // at most
	WallSec     float64 `json:"wall_s"`
	Turns       int64   `json:"turns"`
	TurnsPerSec float64 `json:"turns_per_s"`
	Steps       int64   `json:"steps"`
	UsedCores   float64 `json:"used_cores"` // by all processes together
	// Processes is the processor time of each, in seconds.
	Processes     map[string]float64 `json:"cpu_s"`
	TurnsByEngine []int64            `json:"turns_by_engine"`
	GamesByWorker map[string]float64 `json:"games_by_worker"` // in play, mean
}

// inPlay is how many games were in play on average.
func (l Level) inPlay() float64 {
	sum := 0.0
	for _, n := range l.GamesByWorker {
		sum += n
	}
	return sum
}

// part is processes of one kind.
type part struct {
	name     string
	sum, max float64 // seconds, of all and of the busiest
	count    int
	single   bool // one of them cannot use more than a core
}

// parts is the processes of a level by kind, the dearest first.
func (l Level) parts() []part {
	byName := map[string]*part{}
	for process, sec := range l.Processes {
		name, single := process, false
		switch {
		case strings.HasPrefix(process, "worker"):
			name = "workers"
		case strings.HasPrefix(process, "redis"):
			name, single = "redis", true
		}
		p := byName[name]
		if p == nil {
			p = &part{name: name, single: single}
			byName[name] = p
		}
		p.sum, p.max, p.count = p.sum+sec, max(p.max, sec), p.count+1
	}
	var parts []part
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		parts = append(parts, *byName[name])
	}
	slices.SortStableFunc(parts, func(a, b part) int { return int(b.sum*1e6) - int(a.sum*1e6) })
	return parts
}

// best is the level with the most turns per second.
func (r Result) best() Level {
	return slices.MaxFunc(r.Levels, func(a, b Level) int { return int(a.TurnsPerSec*100) - int(b.TurnsPerSec*100) })
}
