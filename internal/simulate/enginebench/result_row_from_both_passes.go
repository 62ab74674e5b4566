package enginebench

import (
	"math"

	"github.com/millrace/millrace/internal/kit/units"
)

// Row is what was measured with one number of engines. Rates and seconds are of this machine's clock, whatever the
// speed of the simulation.
type Row struct {
	Engines int `json:"engines"`
	// GamesPerMin is the calls answered in the window over the mean number of calls of a finished game, per minute:
	// games in play at either end of the window count by their calls.
	GamesPerMin float64 `json:"games_per_min"`
	// InputTPS and OutputTPS are the differences of the engines' own token counters over wall time, added up. Input
	// counts tokens found in the prefix cache too.
	InputTPS  float64 `json:"input_tps"`
	OutputTPS float64 `json:"output_tps"`
	// BusyShare is the part of the time in which an engine computed, mean over the engines.
	BusyShare float64 `json:"busy_share"`
	// ClosedLoopOutputTPS is the output of the same engines for the same requests, sent in the same order and with
	// the same number in flight by a generator that sends the next one as soon as an answer comes.
	ClosedLoopOutputTPS float64 `json:"closed_loop_output_tps"`
	// Efficiency is OutputTPS over ClosedLoopOutputTPS.
	Efficiency float64 `json:"efficiency"`
	// ScalingEfficiency is OutputTPS per engine over that of the first row.
	ScalingEfficiency float64 `json:"scaling_efficiency"`
	// StarvedSecondsPerStep is how much longer the games of a step take than the modelled trainer takes to train on
	// them: what it waits per step once its buffer is drained, however deep that is.
	StarvedSecondsPerStep float64 `json:"starved_seconds_per_step"`
}

// window is what one engine did between two readings.
type window struct {
	sec           float64
	input, output float64 // tokens
	cached        float64 // of the input, found in the prefix cache
	busy, of      float64 // seconds of the engine's clock
}

func between(a, b reading) window {
	return window{
		sec: b.at.Sub(a.at).Seconds(), input: b.input - a.input, output: b.output - a.output,
		cached: b.cached - a.cached, busy: b.busy - a.busy, of: b.of - a.of,
	}
}

// totals are the engines' windows together. The windows need not be of one length: rates add up all the same.
type totals struct {
	inputTPS, outputTPS float64
	cachedShare         float64 // of the input
	busyShare           float64 // mean over the engines
}

func sum(windows []window) totals {
	var t totals
	var input, cached float64
	for _, w := range windows {
		input, cached = input+w.input, cached+w.cached
		t.inputTPS += units.Share(w.input, w.sec)
		t.outputTPS += units.Share(w.output, w.sec)
		t.busyShare += min(1, units.Share(w.busy, w.of)) / float64(len(windows))
	}
	t.cachedShare = units.Share(cached, input)
	return t
}

// demand is the modelled trainer's, by this machine's clock.
type demand struct {
	gamesPerStep int
	stepSec      float64
}

// starved is the trainer's wait per step when games come at this rate.
func (d demand) starved(gamesPerMin float64) float64 {
	return max(0, units.Share(60*float64(d.gamesPerStep), gamesPerMin)-d.stepSec)
}

// gamesPerMin turns calls into games.
func gamesPerMin(calls int64, sec float64, finished played) float64 {
	perGame := units.Share(float64(finished.gameCalls), float64(finished.games))
	return 60 * units.Share(units.Share(float64(calls), perGame), sec)
}

// row joins both passes of a count. base is the first row's output TPS per engine; 0: this is the first.
func row(engines int, games totals, perMin float64, closed totals, base float64, d demand) Row {
	perEngine := games.outputTPS / float64(engines)
	if base == 0 {
		base = perEngine
	}
	return Row{
		Engines: engines, GamesPerMin: round(perMin, 2),
		InputTPS: round(games.inputTPS, 1), OutputTPS: round(games.outputTPS, 1), BusyShare: round(games.busyShare, 4),
		ClosedLoopOutputTPS: round(closed.outputTPS, 1),
		Efficiency:          round(units.Share(games.outputTPS, closed.outputTPS), 4),
		ScalingEfficiency:   round(units.Share(perEngine, base), 4),

		StarvedSecondsPerStep: round(d.starved(perMin), 3),
	}
}

func round(v float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(v*scale) / scale
}
