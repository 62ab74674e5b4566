package enginebench

import (
	"context"
	"fmt"
	"runtime"
)

// Result is the rows of one measurement, and what they were measured with.
type Result struct {
	Config Config // with the concurrency that was used
	Model  string
	Rows   []Row
	// MachineBusy is the share of this machine's cores that was in use, by row, in the busier pass. Near 1 it was
	// the machine that was measured, and not the engines.
	MachineBusy []float64
	Cores       int
	// CachedShare is the part of the games' prompt tokens that engines found in their prefix caches, by row.
	CachedShare []float64
}

// Engines measures a fleet of each size, one after the other: first with games, then in a closed loop.
func Engines(ctx context.Context, cfg Config) (Result, error) {
	if err := cfg.Validate(); err != nil {
		return Result{}, err
	}
	cores := runtime.GOMAXPROCS(0)
	res := Result{Config: cfg.sized(cores), Cores: cores}
	for i, n := range res.Config.Counts {
		if err := res.measure(ctx, n, 2*i); err != nil {
			return res, fmt.Errorf("%d engines: %w", n, err)
		}
	}
	return res, nil
}

// measure adds the row of n engines. Its two passes have the numbers pass and pass + 1.
func (r *Result) measure(ctx context.Context, n, pass int) error {
	cfg := r.Config
	f, err := OpenFleet(ctx, cfg, n)
	if err != nil {
		return err
	}
	defer f.Stop()
	r.Model = f.Model

	cfg.say("%d engines: playing games, %d requests in flight per engine", n, cfg.Concurrency)
	processorUse := startProcessorUse()
	games, err := playGames(ctx, cfg, f, pass)
	if err != nil {
		return err
	}
	busy := processorUse.share()
	cfg.say("%d engines: the same requests in a closed loop", n)
	processorUse = startProcessorUse()
	closed, err := closedLoop(ctx, cfg, games, pass+1)
	if err != nil {
		return err
	}
	base := 0.0
	if len(r.Rows) > 0 {
		base = r.Rows[0].OutputTPS / float64(r.Rows[0].Engines)
	}
	d := demand{cfg.GroupsPerStep * cfg.Samples, cfg.TrainStep.Seconds() / cfg.Speed}
	perMin := gamesPerMin(games.calls, games.sec, games.played)
	played := sum(games.windows)
	r.Rows = append(r.Rows, row(n, played, perMin, sum(closed), base, d))
	r.CachedShare = append(r.CachedShare, played.cachedShare)
	r.MachineBusy = append(r.MachineBusy, max(busy, processorUse.share()))
	return nil
}
