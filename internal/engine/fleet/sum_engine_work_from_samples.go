package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// Work is what one engine did over some time, by its own counters: sums over the seconds in which it was ready, of
// which Sec is how many.
type Work struct {
	Sec     float64 `json:"s"`
	Running float64 `json:"r"` // seconds of the requests that it works on
	// Waiting is that of the requests inside of it that it does not work on, because it takes no more at once, whatever it
	// is given.
	Waiting     float64 `json:"w"`
	Limit       float64 `json:"l"` // seconds of its slots
	KV          float64 `json:"k,omitempty"`
	Input       float64 `json:"i"` // prompt tokens
	Cached      float64 `json:"c,omitempty"`
	Output      float64 `json:"o"`
	Requests    float64 `json:"q,omitempty"`
	RequestSec  float64 `json:"t,omitempty"`
	Preemptions float64 `json:"p,omitempty"`
	Crowded     float64 `json:"f,omitempty"` // seconds in which it had more than it takes at once
}

// with makes of each sum, and that of another work, a new one.
func (w Work) with(o Work, of func(mine, other float64) float64) Work {
	return Work{
		Sec: of(w.Sec, o.Sec), Running: of(w.Running, o.Running), Waiting: of(w.Waiting, o.Waiting),
		Limit: of(w.Limit, o.Limit), KV: of(w.KV, o.KV), Input: of(w.Input, o.Input), Cached: of(w.Cached, o.Cached),
		Output: of(w.Output, o.Output), Requests: of(w.Requests, o.Requests), RequestSec: of(w.RequestSec, o.RequestSec),
		Preemptions: of(w.Preemptions, o.Preemptions), Crowded: of(w.Crowded, o.Crowded),
	}
}

// Plus is the work of both.
func (w Work) Plus(o Work) Work {
	return w.with(o, func(mine, other float64) float64 { return mine + other })
}

// part is a share of the work.
func (w Work) part(share float64) Work {
	return w.with(Work{}, func(sum, _ float64) float64 { return sum * share })
}

// mostStretchesRead bounds what is read at once: half an hour.
const mostStretchesRead = 360

// WorkSince sums up each engine's work in the stretches recorded after the one named, and names the newest stretch. An
// empty name, or one newer than all there are, from a Redis that was lost, stands for the newest: the sums are then
// zero. Engines that were restarted meanwhile count from their start.
func (s *Sampler) WorkSince(ctx context.Context, after string) (map[rollout.EngineID]Work, string, error) {
	stream := s.key + ":engines"
	last, err := s.rdb.XRevRangeN(ctx, stream, "+", "-", 1).Result()
	if err != nil {
		return nil, "", fmt.Errorf("read engine samples: %w", err)
	}
	if len(last) == 0 {
		return nil, "", nil
	}
	newest := last[0].ID
	if after == "" || !olderID(after, newest) {
		return nil, newest, nil
	}
	entries, err := s.rdb.XRangeN(ctx, stream, "("+after, newest, mostStretchesRead).Result()
	if err != nil {
		return nil, "", fmt.Errorf("read engine samples: %w", err)
	}
	done := map[rollout.EngineID]Work{}
	for _, e := range entries {
		if err := addStretches(done, e); err != nil {
			return nil, "", err
		}
	}
	return done, newest, nil
}

// addStretches adds the rows of one stretch.
func addStretches(done map[rollout.EngineID]Work, e redis.XMessage) error {
	var rows []engineStretch
	text, _ := e.Values["s"].(string)
	if err := json.Unmarshal([]byte(text), &rows); err != nil {
		return fmt.Errorf("engine sample %s: %w", e.ID, err)
	}
	for _, row := range rows {
		done[row.Engine] = done[row.Engine].Plus(row.Work)
	}
	return nil
}

// olderID reports whether a stream's id is before another.
func olderID(a, b string) bool {
	number := func(text string) uint64 {
		n, _ := strconv.ParseUint(text, 10, 64) // Redis made it
		return n
	}
	aMS, aSeq, _ := strings.Cut(a, "-")
	bMS, bSeq, _ := strings.Cut(b, "-")
	if number(aMS) != number(bMS) {
		return number(aMS) < number(bMS)
	}
	return number(aSeq) < number(bSeq)
}

// add takes in the time between two looks. Requests in flight are known at both, and taken for what is between them.
func (w *Work) add(before, now enginestate.EngineLoad, limit float64) {
	sec := min(now.WindowSec, maxSampleWindow.Seconds())
	w.Sec += sec
	w.Running += sec * (before.Running + now.Running) / 2
	w.Waiting += sec * (before.Waiting + now.Waiting) / 2
	w.Crowded += sec * (crowded(before) + crowded(now)) / 2
	w.Limit += sec * limit
	w.KV += sec * now.KVUsage
	w.Input += sec * now.InputTPS
	w.Cached += sec * now.InputTPS * now.PrefixHitShare
	w.Output += sec * now.OutputTPS
	w.Requests += now.Requests
	w.RequestSec += now.Requests * now.RequestSec
	w.Preemptions += now.Preemptions
}
