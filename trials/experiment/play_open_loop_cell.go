package experiment

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
	"github.com/millrace/millrace/trials/experiment/arrivals"
	"github.com/millrace/millrace/trials/experiment/openloop"
	"github.com/millrace/millrace/trials/experiment/wholebatch"
)

// playOpenLoop plays a cell of arrivals and engines with one seed, and returns its metrics by name.
func (c *Cell) playOpenLoop(seed uint64) (map[string]float64, error) {
	s := &c.Setting
	trace := c.arrivals(seed)
	requests := s.requests(trace, seed)
	binned := s.endBins(requests)
	s = &binned
	s.misplace(requests, seed)
	s.assignBins(requests)
	outcome, batches, err := s.play(requests, seed)
	if err != nil {
		return nil, err
	}
	m := s.sum(trace, requests, outcome)
	if err := s.load(m, requests); err != nil {
		return nil, err
	}
	s.countBatches(m, requests, outcome, batches)
	s.composition(m, requests, outcome)
	return m, nil
}

// play plays requests with the scheduler that is asked for.
func (s *Setting) play(requests []openloop.Request, seed uint64) (openloop.Outcome, []wholebatch.BatchDone, error) {
	if s.Scheduler.isNote() {
		return s.playNote(requests)
	}
	var batches []wholebatch.BatchDone
	setting := openloop.Setting{
		Requests: requests, Engines: s.working(), Rules: s.Dispatch.Dispatch, Batching: s.Dispatch.Batching,
		Engine: func(number int) (enginemodel.Engine, error) {
			return s.newEngine(seed, number, func(b wholebatch.BatchDone) { batches = append(batches, b) })
		},
	}
	switch s.Assign {
	case AssignHash, AssignCalls:
		setting.Models = func(number int) []string { return []string{modelOf(number)} }
	case AssignBins:
		setting.Models = s.binsOf
	}
	if s.Engine.Batching == Continuous {
		setting.Limit = s.Dispatch.MaxInFlightPerEngine
	}
	outcome, err := openloop.Play(setting)
	return outcome, batches, err
}

// assignBins gives every request to the engines of its bin, if bins have their own.
func (s *Setting) assignBins(requests []openloop.Request) {
	if s.Assign != AssignBins {
		return
	}
	for i := range requests {
		requests[i].Model = ofBin(s.binOf(s.binLength(&requests[i])))
	}
}

// working is how many engines can work at once: under a lock that is held while a batch is worked on, one.
func (s *Setting) working() int {
	if s.Lock {
		return 1
	}
	return s.Engines
}

// arrivals is what comes in this cell, with a seed.
func (c *Cell) arrivals(seed uint64) arrivals.Trace {
	if c.Trace != nil {
		return c.Setting.Arrivals.Of(*c.Trace, seed)
	}
	return c.Setting.Arrivals.Draw(seed)
}

func modelOf(engine int) string { return fmt.Sprintf("engine-%d", engine) }

// requests is arrivals as the dispatcher gets them.
func (s *Setting) requests(trace arrivals.Trace, seed uint64) []openloop.Request {
	hash := virtualtime.NewRandom(seed, "hash of a prompt")
	predictor := virtualtime.NewRandom(seed, "predictions")
	requests := make([]openloop.Request, len(trace.Arrivals))
	for i, a := range trace.Arrivals {
		r := openloop.Request{At: a.At, Prompt: a.Prompt, Output: a.Output}
		if s.Engine.Batching == Continuous { // which answers with one token at least
			r.Prompt, r.Output = max(1, r.Prompt), max(1, r.Output)
		}
		switch s.Told {
		case ToldNothing:
		case ToldPrediction:
			r.Predicted = s.Prediction.orDefault().of(r.Prompt, predictor)
		default:
			r.Predicted = r.Output
		}
		switch s.Assign {
		case AssignHash:
			r.Model = modelOf(hash.IntN(s.Engines))
		case AssignCalls:
			r.Model, r.Class = modelOf(a.Call%s.Engines), uint64(a.Call)+1
		}
		requests[i] = r
	}
	return requests
}

func (s *Setting) newEngine(seed uint64, number int, done func(wholebatch.BatchDone)) (enginemodel.Engine, error) {
	if s.Engine.Batching == Continuous {
		profile, err := enginemodel.LoadProfile(s.Engine.Profile)
		if err != nil {
			return nil, err
		}
		return enginemodel.NewContinuous(profile.Cost(1), profile.Limits(), cmp.Or(s.Engine.TimeFactor, 1)), nil
	}
	time, err := s.Engine.Time.batchTime()
	if err != nil {
		return nil, err
	}
	whole, err := wholebatch.NewWholeBatch(wholebatch.WholeBatchConfig{
		Time: time, OutputOnly: s.Engine.OutputOnly, Workers: s.Engine.Workers, Cores: s.Engine.Cores,
		CoresPerWorker: s.Engine.CoresPerWorker, Contention: s.Engine.Contention, OnBatch: done,
	})
	if err != nil || s.Engine.Variation == 0 {
		return whole, err
	}
	chance := virtualtime.NewRandom(seed, fmt.Sprintf("times of engine %d", number))
	return &unsteady{whole, s.Engine.Variation, chance}, nil
}

// unsteady is an engine whose batches take longer or less long than its model says, by chance.
type unsteady struct {
	*wholebatch.WholeBatch
	variation float64
	chance    *virtualtime.Random
}

// Submit draws the time of the batch, lognormal with mean 1.
func (u *unsteady) Submit(now time.Duration, calls []enginemodel.Call) error {
	variance := math.Log(1 + u.variation*u.variation)
	u.SetSlow(now, math.Exp(math.Sqrt(variance)*u.chance.Normal()-variance/2))
	return u.WholeBatch.Submit(now, calls)
}

// batchTime is the model of package enginemodel.
func (t Time) batchTime() (wholebatch.BatchTime, error) {
	from := cmp.Or(t.Source, "the experiment's file")
	switch {
	case len(t.Measured) > 0:
		return wholebatch.NewTable(from, t.Measured)
	case t.Growth > 0:
		return wholebatch.SaturatingTime{Start: t.PerBatch.Seconds(), PerToken: t.PerToken.Seconds(), Growth: t.Growth,
			From: from}, nil
	}
	return wholebatch.LinearTime{PerBatch: t.PerBatch.Seconds(), PerRequest: t.PerRequest.Seconds(),
		PerToken: t.PerToken.Seconds(), PerRequestToken: t.PerRequestToken.Seconds(), From: from}, nil
}

// sum takes the metrics of requests and engines.
func (s *Setting) sum(trace arrivals.Trace, requests []openloop.Request, o openloop.Outcome) map[string]float64 {
	om := o.Metrics(requests, s.SLO.Std())
	gaps := arrivals.GapsOf(trace)
	m := map[string]float64{
		"requests": float64(om.Requests), "calls": float64(gaps.Calls), "rejected": 0,
		"latency_mean": om.Mean, "latency_p50": om.P50, "latency_p95": om.P95, "latency_p99": om.P99, "latency_max": om.Max,
		"throughput": om.Throughput, "violation": om.Violations, "goodput": om.Goodput,
		"util": om.Busy * float64(len(o.Busy)) / float64(s.Engines), "makespan": om.End - requests[0].At.Seconds(),
		"gap_mean": gaps.Mean.Seconds(), "gap_median": gaps.Median.Seconds(), "gap_cv": gaps.CV,
		"merge":   gaps.Within(s.Dispatch.Batching.FlushWindow.Std()),
		"batches": float64(om.Batches), "batch_size": om.BatchMean, "padding": 0, "service_mean": 0,
	}
	var output, done float64
	waits := make([]float64, len(requests))
	for i, served := range o.Served {
		output += float64(requests[i].Output)
		waits[i] = (served.Sent - requests[i].At).Seconds()
		if s.Horizon == 0 || served.Ended <= s.Horizon.Std() {
			done++
		}
	}
	slices.Sort(waits)
	m["done"], m["tokens_per_s"] = done, output/m["makespan"]
	sum := 0.0
	for _, w := range waits {
		sum += w
	}
	m["wait_mean"], m["wait_max"] = sum/float64(len(waits)), waits[len(waits)-1]
	m["wait_p50"], m["wait_p95"] = openloop.Percentile(waits, 0.5), openloop.Percentile(waits, 0.95)
	least, most := math.Inf(1), 0.0
	for _, busy := range o.Busy {
		share := busy.Seconds() / om.End
		least, most = min(least, share), max(most, share)
	}
	if s.Lock { // the work of the one moves from engine to engine
		least, most = m["util"], m["util"]
	}
	m["util_min"], m["util_max"] = least, most
	return m
}

// countBatches takes the metrics of batches, which engines of continuous batching have none of.
func (s *Setting) countBatches(m map[string]float64, requests []openloop.Request, o openloop.Outcome,
	batches []wholebatch.BatchDone) {
	m["done_batches"] = 0
	if s.Engine.Batching == Continuous {
		m["batches"], m["batch_size"], m["padding"] = 0, 0, 0
		return
	}
	var seconds, useful, places float64
	for _, b := range batches {
		seconds += (b.Ended - b.Began).Seconds()
		useful += float64(b.Useful)
		places += float64(b.Size * b.Longest)
		if s.Horizon == 0 || b.Ended <= s.Horizon.Std() {
			m["done_batches"]++
		}
	}
	m["service_mean"] = seconds / float64(max(1, len(batches)))
	m["padding"] = 1 - useful/max(1, places)
}

// load takes what follows from the arrivals and the engines' model alone.
func (s *Setting) load(m map[string]float64, requests []openloop.Request) error {
	m["rho"], m["infeasible"] = 0, 0
	if s.Engine.Batching == Continuous {
		return nil
	}
	time, err := s.Engine.Time.batchTime()
	if err != nil {
		return err
	}
	seconds := time.Seconds
	if s.SLO > 0 {
		n, err := openloop.Infeasible(requests, seconds, s.SLO.Std())
		if err != nil {
			return err
		}
		m["infeasible"] = float64(n) / float64(len(requests))
	}
	if requests[len(requests)-1].At == requests[0].At {
		return nil // all at once: a load is not defined
	}
	m["rho"], err = openloop.Load(requests, seconds, max(1, s.Dispatch.Batching.MaxBatchSize), s.working())
	return err
}

// Random reports whether chance plays in a cell.
func (c *Cell) Random() bool {
	if c.Setup != nil {
		return chance(c.Setup)
	}
	s := &c.Setting
	predicts := s.Told == ToldPrediction && s.Prediction.orDefault().Spread > 0
	if s.Engine.Variation > 0 || s.Assign == AssignHash || predicts || s.ToldBeside > 0 {
		return true
	}
	if c.Trace == nil {
		return s.Arrivals.Random()
	}
	hasLengths := func(a arrivals.Arrival) bool { return a.Prompt > 0 || a.Output > 0 }
	return !slices.ContainsFunc(c.Trace.Arrivals, hasLengths) && (s.Arrivals.Prompt.Random() || s.Arrivals.Output.Random())
}
