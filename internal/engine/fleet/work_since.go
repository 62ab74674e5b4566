package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
)

// Work is one engine's work over some time, by its own counters: sums over the seconds in which it was ready.
type Work struct {
	Sec, InFlightSec, LimitSec float64
	Input, Cached, Output      float64 // tokens, as the engine made them
	// RunningSec and WaitingSec add up to InFlightSec: requests that the engine works on, and those that wait inside of
	// it because it takes no more at once. CrowdedSec is how long there was such a queue.
	RunningSec, WaitingSec, CrowdedSec float64
}

// Plus is the work of both.
func (w Work) Plus(o Work) Work {
	return Work{
		Sec: w.Sec + o.Sec, InFlightSec: w.InFlightSec + o.InFlightSec, LimitSec: w.LimitSec + o.LimitSec,
		Input: w.Input + o.Input, Cached: w.Cached + o.Cached, Output: w.Output + o.Output,
		RunningSec: w.RunningSec + o.RunningSec, WaitingSec: w.WaitingSec + o.WaitingSec,
		CrowdedSec: w.CrowdedSec + o.CrowdedSec,
	}
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
		done[row.Engine] = done[row.Engine].Plus(Work{
			Sec: row.Sec, InFlightSec: row.Running + row.Waiting, LimitSec: row.Limit,
			Input: row.Input, Cached: row.Cached, Output: row.Output, RunningSec: row.Running, WaitingSec: row.Waiting,
			CrowdedSec: row.Crowded,
		})
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
