package plan

import (
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/simulate/sim"
)

// summarize makes a setting's figures from those of its seeds.
func (c *Cell) summarize(r Request, seeds []figures) {
	var total figures
	var stepSec []float64
	for _, f := range seeds {
		total = total.add(f)
		stepSec = append(stepSec, f.stepSec)
		c.StalenessMax = max(c.StalenessMax, f.stalenessMax)
	}
	n := float64(len(seeds))
	c.Step = stat.Mean(stepSec, 0.95)
	c.Steps = seeds[0].steps
	c.BeforeSec = total.beforeSec / n
	c.StarvedShare = total.starved()
	c.StalenessMean = units.Share(total.staleness, total.groups)
	c.BusyShare = min(1, units.Share(total.busySec, total.engineSec))
	c.SlotShare = min(1, units.Share(total.slotSec, total.engineSec))
	c.InputTPS, c.OutputTPS = units.Share(total.input, total.windowSec), units.Share(total.output, total.windowSec)
	c.TrainedTokens = units.Share(total.trained, float64(total.steps))
	c.DroppedShare = units.Share(total.dropped, total.dropped+total.left)
	c.EngineHours = float64(c.Engines) * c.Step.Mean / 3600
	if r.Price > 0 {
		c.StepCost = r.Price * c.EngineHours
		c.TokenCost = units.Share(c.StepCost*1e6, c.TrainedTokens)
	}
}

// figures are sums over the steady steps of a simulation.
type figures struct {
	steps                int
	stepSec              float64 // mean
	beforeSec            float64
	wall, wait           float64
	groups, staleness    float64
	stalenessMax         int64
	windowSec, engineSec float64
	busySec, slotSec     float64
	input, output        float64 // tokens
	trained              float64 // tokens
	dropped, left        float64 // groups, of the whole simulation
}

func (f figures) starved() float64 { return units.Share(f.wait, f.wall) }

func (f figures) add(o figures) figures {
	return figures{
		steps: f.steps + o.steps, beforeSec: f.beforeSec + o.beforeSec, wall: f.wall + o.wall, wait: f.wait + o.wait,
		groups: f.groups + o.groups, staleness: f.staleness + o.staleness,
		windowSec: f.windowSec + o.windowSec, engineSec: f.engineSec + o.engineSec,
		busySec: f.busySec + o.busySec, slotSec: f.slotSec + o.slotSec,
		input: f.input + o.input, output: f.output + o.output, trained: f.trained + o.trained,
		dropped: f.dropped + o.dropped, left: f.left + o.left,
	}
}

func figuresOf(steps []steprecord.StepRecord, result sim.Result) figures {
	var f figures
	for _, s := range steps {
		v := s.Service
		f.steps++
		f.wall += s.StepSec()
		f.wait += s.StepPhases()[steprecord.PhaseWait]
		n := float64(len(v.Groups))
		f.groups += n
		f.staleness += n * v.StalenessMean
		f.stalenessMax = max(f.stalenessMax, v.StalenessMax)
		f.windowSec += v.Fleet.WindowSec
		f.engineSec += v.Fleet.WindowSec * v.Fleet.Engines
		f.busySec += v.Fleet.WindowSec * v.Fleet.Engines * v.Fleet.BusyShare
		f.slotSec += v.Fleet.WindowSec * v.Fleet.Engines * v.Fleet.SlotShare
		f.input += v.Fleet.WindowSec * v.Fleet.InputTPS
		f.output += v.Fleet.WindowSec * v.Fleet.OutputTPS
		for _, g := range v.Groups {
			f.trained += float64(g.Usage.InputTokens + g.Usage.OutputTokens)
		}
	}
	f.stepSec = units.Share(f.wall, float64(f.steps))
	for _, d := range result.Input.Departures {
		if d.Code == steprecord.Trained {
			f.left += float64(d.Groups)
		} else {
			f.dropped += float64(d.Groups)
		}
	}
	return f
}
