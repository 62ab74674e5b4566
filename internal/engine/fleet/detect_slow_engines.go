package fleet

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// Pace is an engine's speed over a window: output tokens per second, and its mean of running requests.
type Pace struct {
	OutputTPS float64
	Running   float64
}

// perRequest is the tokens per second that one request sees.
func (p Pace) perRequest() float64 { return units.Share(p.OutputTPS, p.Running) }

// Where an engine counts as slow, and where no longer. An engine with less to do also generates less, so that
// one which is given less is judged by what its requests see.
const (
	slowShare   = 0.5  // of the others' median output, with as much to do
	comparable  = 0.75 // of the others' median running requests is as much to do
	leastLoad   = 1    // running requests; below, two engines differ by chance
	steadyShare = 0.75 // of the others' median per request ends it
)

// Lag describes how an engine lags behind the others, or is "". was is the previous description.
func Lag(was string, mine Pace, others []Pace) string {
	if len(others) == 0 || mine.Running == 0 {
		return was
	}
	output, running := medianOf(others, Pace.output), medianOf(others, Pace.running)
	if was != "" {
		if mine.perRequest() >= steadyShare*medianOf(others, Pace.perRequest) {
			return ""
		}
	} else if mine.OutputTPS >= slowShare*output || mine.Running < max(comparable*running, leastLoad) {
		return ""
	}
	return fmt.Sprintf("%.0f output tokens/s with %.0f requests running; the others' median is %.0f with %.0f",
		mine.OutputTPS, mine.Running, output, running)
}

func (p Pace) output() float64  { return p.OutputTPS }
func (p Pace) running() float64 { return p.Running }

func medianOf(paces []Pace, of func(Pace) float64) float64 {
	values := make([]float64, len(paces))
	for i, p := range paces {
		values[i] = of(p)
	}
	return stat.Median(values)
}

// paces keeps the latest loads of every engine and, made of them, who lags behind. The Keeper adds; engine loops ask.
type paces struct {
	window time.Duration

	mu     sync.Mutex
	loads  map[rollout.EngineID][]enginestate.EngineLoad
	lagged map[rollout.EngineID]string
}

func newPaces(window time.Duration) *paces {
	return &paces{
		window: window, loads: map[rollout.EngineID][]enginestate.EngineLoad{}, lagged: map[rollout.EngineID]string{},
	}
}

func (p *paces) lag(id rollout.EngineID) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lagged[id]
}

// add takes in what the engines were last seen to do, and judges those that were busy for the whole window.
func (p *paces) add(now time.Time, engines []enginestate.Engine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := map[rollout.EngineID][]enginestate.EngineLoad{}
	busy := map[rollout.EngineID]Pace{}
	for _, e := range engines {
		if e.State != enginestate.EngineReady {
			continue
		}
		loads := p.loads[e.ID]
		if n := len(loads); e.Load.WindowSec > 0 && (n == 0 || e.Load.At.After(loads[n-1].At)) {
			loads = append(loads, e.Load)
		}
		loads = slices.DeleteFunc(loads, func(l enginestate.EngineLoad) bool { return now.Sub(l.At) > p.window })
		kept[e.ID] = loads
		if pace, covered := meanPace(loads); covered >= p.window.Seconds()*2/3 && pace.Running > 0 {
			busy[e.ID] = pace
		}
		if _, known := p.lagged[e.ID]; !known && e.Slow != "" {
			p.lagged[e.ID] = e.Slow // as the Keeper before this one saw it
		}
	}
	p.loads = kept
	for id := range p.lagged {
		if kept[id] == nil {
			delete(p.lagged, id)
		}
	}
	for id, mine := range busy {
		var others []Pace
		for other, pace := range busy {
			if other != id {
				others = append(others, pace)
			}
		}
		p.lagged[id] = Lag(p.lagged[id], mine, others)
	}
}

func meanPace(loads []enginestate.EngineLoad) (p Pace, covered float64) {
	for _, l := range loads {
		covered += l.WindowSec
		p.OutputTPS += l.OutputTPS * l.WindowSec
		p.Running += l.Running * l.WindowSec
	}
	return Pace{units.Share(p.OutputTPS, covered), units.Share(p.Running, covered)}, covered
}
