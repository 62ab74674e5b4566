package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

const (
	// stretch is how long an engine is watched for one row.
	stretch = enginestate.LoadStretch * time.Second
	// keptRows bounds the stream of rows, of some 120 bytes each: 28 MB, which is five hours of 64 engines.
	keptRows = 3600 * enginestate.MaxEngineViews
	// mostStretches bounds the stream where there are few engines.
	mostStretches = 3600
	// mostRows bounds the engines of one stretch.
	mostRows = 1024
)

// engineStretch is what one engine did in a stretch of time.
type engineStretch struct {
	Engine rollout.EngineID `json:"e"`
	Work
}

// engineStretches gathers rows from looks at the engines. The Keeper owns it.
type engineStretches struct {
	began time.Time
	rows  map[rollout.EngineID]*engineStretch
	last  map[rollout.EngineID]enginestate.EngineLoad
}

func newEngineStretches() *engineStretches {
	return &engineStretches{rows: map[rollout.EngineID]*engineStretch{},
		last: map[rollout.EngineID]enginestate.EngineLoad{}}
}

// add adds the engines' last observations, and returns the rows of a stretch that is over.
func (s *engineStretches) add(now time.Time, engines []enginestate.Engine) []engineStretch {
	if s.began.IsZero() {
		s.began = now
	}
	seen := make(map[rollout.EngineID]enginestate.EngineLoad, len(engines))
	for _, e := range engines {
		if e.State != enginestate.EngineReady || e.Load.WindowSec <= 0 || e.Load.At.IsZero() {
			continue
		}
		seen[e.ID] = e.Load
		before, known := s.last[e.ID]
		if known && !e.Load.At.After(before.At) {
			continue // no new look at it
		}
		if !known {
			before = e.Load
		}
		row := s.rows[e.ID]
		if row == nil {
			row = &engineStretch{Engine: e.ID}
			s.rows[e.ID] = row
		}
		row.add(before, e.Load, float64(e.Limit()))
	}
	s.last = seen
	if now.Sub(s.began) < stretch {
		return nil
	}
	rows := make([]engineStretch, 0, len(s.rows))
	for _, row := range s.rows {
		rows = append(rows, *row)
	}
	s.began, s.rows = now, map[rollout.EngineID]*engineStretch{}
	slices.SortFunc(rows, func(a, b engineStretch) int { return cmp.Compare(a.Engine, b.Engine) })
	return rows[:min(len(rows), mostRows)]
}

// queueOfMany is how many requests wait inside of a full engine for each one that it works on. Fewer have just arrived:
// an engine takes requests in with its next step, one of some dozen that a request takes.
const queueOfMany = 0.1

// crowded is 1 where an engine had more requests than it takes at once, however many it is given.
func crowded(load enginestate.EngineLoad) float64 {
	if load.Waiting > queueOfMany*load.Running {
		return 1
	}
	return 0
}

// digits is a value to four digits, as rows and records keep it: half a per mille is nothing, and JSON is shorter.
func digits(v float64) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	if err != nil {
		return v
	}
	return short
}

// RecordEngines appends the rows of a stretch.
func (s *Sampler) RecordEngines(ctx context.Context, at time.Time, rows []engineStretch) error {
	if len(rows) == 0 {
		return nil
	}
	for i := range rows {
		rows[i].Work = rows[i].with(Work{}, func(sum, _ float64) float64 { return digits(sum) })
	}
	b, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	if err := s.append(ctx, s.key+":engines", min(mostStretches, keptRows/int64(len(rows))), at, b); err != nil {
		return fmt.Errorf("record engine samples: %w", err)
	}
	return nil
}

// Engines is each engine between two moments, as far as that was recorded.
func (s *Sampler) Engines(ctx context.Context, from, to time.Time) ([]enginestate.EngineView, error) {
	entries, err := s.between(ctx, s.key+":engines", from, to.Add(stretch))
	if err != nil {
		return nil, fmt.Errorf("read engine samples: %w", err)
	}
	window := newEngineWindow(from, to)
	for _, e := range entries {
		var rows []engineStretch
		text, _ := e.Values["s"].(string)
		if err := json.Unmarshal([]byte(text), &rows); err != nil {
			return nil, fmt.Errorf("engine sample %s: %w", e.ID, err)
		}
		at, err := sampledAt(e)
		if err != nil {
			return nil, fmt.Errorf("engine sample %s: %w", e.ID, err)
		}
		window.add(at, rows)
	}
	return window.views(), nil
}
