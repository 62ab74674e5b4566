// Package runcurve makes the curve of a run out of its step records: how good the games of each policy version, step or
// stretch of time were, how sure that is, and which games are not in it. Faces show it; what the trainer tells of its
// own evaluations is theirs to add. Start reading at Of.
package runcurve

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// Axis is what the points of a curve are.
type Axis string

// The axes. A group's games count as those of the oldest version that played any turn of them.
const (
	ByVersion Axis = "version"
	ByStep    Axis = "step"
	ByTime    Axis = "time"
)

// MostPoints bounds the points of a curve.
const MostPoints = 1000

// confidence is that of all intervals.
const confidence = 0.95

// Step is what the curve needs of a step record.
type Step struct {
	No      rollout.Step
	Version rollout.PolicyVersion // of the trainer
	At      time.Time             // completed
	Results []steprecord.VersionResults
	dropped map[rollout.Code]int64 // so far
}

// untold is the code of dropped groups in records that tell only how many there are.
const untold rollout.Code = "unknown"

// StepOf is the row of a record.
func StepOf(r steprecord.StepRecord) Step {
	v := r.Service
	s := Step{No: r.Step, Version: v.Version, At: v.CompletedAt, Results: v.Played(), dropped: v.DroppedSoFar}
	if s.dropped == nil && v.AtClaim.Dropped > 0 {
		s.dropped = map[rollout.Code]int64{untold: v.AtClaim.Dropped}
	}
	return s
}

// From counts versions from one on: version 0 of an evaluation is a version of the run that it evaluates.
func (s *Step) From(first rollout.PolicyVersion) {
	s.Version += first
	s.Results = slices.Clone(s.Results)
	for i := range s.Results {
		s.Results[i].Version += first
	}
}

// Played is the results of all games of the step.
func (s *Step) Played() (all steprecord.Results) {
	for _, r := range s.Results {
		all = all.Add(r.Results)
	}
	return all
}

// Point is the games of one version, one step or one stretch of time, or of neighbours. What is nil is not known.
type Point struct {
	First int64     `json:"first" doc:"Policy version by version, else step"`
	Last  int64     `json:"last"`
	From  time.Time `json:"from" doc:"When the first step that its games were trained in was completed"`
	To    time.Time `json:"to"`

	Groups int `json:"groups"`
	Games  int `json:"games"`
	// Reward is the mean of the games. Its interval takes groups, not games, as independent of each other.
	Reward *stat.Interval `json:"reward,omitempty" doc:"Mean of the games; half is half of its 95 % interval, by group"`
	Spread *float64       `json:"spread_within_groups,omitempty" doc:"Standard deviation of rewards within groups"`
	// Agents is the same of each agent's rewards, in games that train several.
	Agents map[string]stat.Interval `json:"agents,omitempty"`

	ZeroVariance  *float64 `json:"zero_variance_share,omitempty" doc:"Of the groups: those whose rewards are equal"`
	TokensPerTurn *float64 `json:"tokens_per_turn,omitempty" doc:"Generated tokens"`
	TokensPerGame *float64 `json:"tokens_per_game,omitempty" doc:"Generated tokens"`
	Invalid       *float64 `json:"invalid_share,omitempty" doc:"Of the answers: those that the environment could not use"`
	Cut           *float64 `json:"cut_share,omitempty" doc:"Of the turns: answers that ended at the limit of tokens"`
	Truncated     *float64 `json:"truncated_share,omitempty" doc:"Of the games: those that ended at their horizon"`
	Length        *float64 `json:"game_length,omitempty" doc:"Phases, mean of the games"`
	Longest       int      `json:"longest_game,omitempty" doc:"Phases"`

	// What is not in it.
	// Dropped counts groups with the step whose batch was claimed next, and with the version that the trainer had then.
	Dropped   map[rollout.Code]int64 `json:"groups_dropped,omitempty" doc:"By why, before the step's batch was claimed"`
	Failed    int                    `json:"games_failed,omitempty" doc:"Given up, in groups that are trained on"`
	Cancelled int                    `json:"games_cancelled,omitempty" doc:"Stopped because others sufficed"`
	Unusable  int                    `json:"rewards_unusable,omitempty" doc:"No numbers"`
}

// DroppedGroups is Dropped, whatever the reason.
func (p *Point) DroppedGroups() int64 { return stat.Sum(maps.Values(p.Dropped)) }

// Curve is the points of a run in their order.
type Curve struct {
	Run    rollout.RunName `json:"run"`
	By     Axis            `json:"by"`
	Steps  int             `json:"steps" doc:"Completed steps with a record"`
	Points []Point         `json:"points"`
	Notes  []string        `json:"notes" doc:"What to know before reading it"`
}

// Asked is which curve: its axis, how many points at most, and the stretch of time whose steps count; zero ends are
// open.
type Asked struct {
	By       Axis
	Most     int
	From, To time.Time
}

// cell gathers a point.
type cell struct {
	Point
	results steprecord.Results
}

// add counts results of a key, a step or a version, that were trained on from one time to another.
func (c *cell) add(first, last int64, from, to time.Time, r steprecord.Results, dropped map[rollout.Code]int64) {
	if c.From.IsZero() {
		c.First, c.Last, c.From, c.To = first, last, from, to
	}
	c.First, c.Last = min(c.First, first), max(c.Last, last)
	if from.Before(c.From) {
		c.From = from
	}
	if to.After(c.To) {
		c.To = to
	}
	c.results = c.results.Add(r)
	for code, n := range dropped {
		if c.Dropped == nil {
			c.Dropped = map[rollout.Code]int64{}
		}
		c.Dropped[code] += n
	}
}

// Of is the curve of steps that are in their order.
func Of(run rollout.RunName, steps []Step, asked Asked) Curve {
	c := Curve{Run: run, By: asked.By, Points: []Point{}, Notes: []string{}}
	most := min(max(1, asked.Most), MostPoints)
	first, end := 0, len(steps)
	for first < end && steps[first].At.Before(asked.From) {
		first++
	}
	for end > first && !asked.To.IsZero() && steps[end-1].At.After(asked.To) {
		end--
	}
	if c.Steps = end - first; c.Steps == 0 {
		return c
	}
	width := stretchOf(steps[first].At, steps[end-1].At, most)
	cells := map[int64]*cell{}
	add := func(place, key int64, s *Step, r steprecord.Results, dropped map[rollout.Code]int64) {
		if cells[place] == nil {
			cells[place] = &cell{}
		}
		cells[place].add(key, key, s.At, s.At, r, dropped)
	}
	unknown := 0
	for i := first; i < end; i++ {
		s := &steps[i]
		if s.Played().Reward.N == 0 {
			unknown++
		}
		place, key := int64(s.No), int64(s.No)
		switch asked.By {
		case ByTime:
			place = int64(s.At.Sub(steps[first].At) / width)
		case ByVersion:
			place, key = int64(s.Version), int64(s.Version)
		case ByStep:
		}
		for _, r := range s.Results {
			if asked.By == ByVersion {
				add(int64(r.Version), int64(r.Version), s, r.Results, nil)
			} else {
				add(place, key, s, r.Results, nil)
			}
		}
		if dropped := droppedSince(steps, i); len(dropped) > 0 {
			add(place, key, s, steprecord.Results{}, dropped)
		}
	}
	if unknown > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("of %d of %d steps no rewards are known: their records are lost, or older "+
			"than what the curve is made of", unknown, c.Steps))
	}
	c.join(cells, most)
	return c
}

// droppedSince is the groups that were dropped from the claim of the step before to that of a step.
func droppedSince(steps []Step, i int) map[rollout.Code]int64 {
	if i == 0 && steps[i].No > 0 {
		return nil // those before it are not told apart
	}
	now, before, since := steps[i].dropped, map[rollout.Code]int64(nil), map[rollout.Code]int64{}
	if i > 0 {
		before = steps[i-1].dropped
	}
	if len(now) > 0 && len(before) > 0 && (now[untold] > 0) != (before[untold] > 0) { // only one record tells why
		now = map[rollout.Code]int64{untold: stat.Sum(maps.Values(now))}
		before = map[rollout.Code]int64{untold: stat.Sum(maps.Values(before))}
	}
	for code, n := range now {
		if n > before[code] { // else Redis has come back older
			since[code] = n - before[code]
		}
	}
	return since
}

// join makes points of the cells, neighbours as one where there are more than are asked for.
func (c *Curve) join(cells map[int64]*cell, most int) {
	places := slices.Sorted(maps.Keys(cells))
	unusable, several := 0, false
	for part := range slices.Chunk(places, max(1, (len(places)+most-1)/most)) {
		one := cells[part[0]]
		for _, place := range part[1:] {
			next := cells[place]
			one.add(next.First, next.Last, next.From, next.To, next.results, next.Dropped)
		}
		c.Points = append(c.Points, one.point())
		unusable, several = unusable+one.results.Unusable, several || len(one.results.Agents) > 0
	}
	if unusable > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("%d rewards are no numbers, and are left out", unusable))
	}
	if several {
		c.Notes = append(c.Notes, "several players of a game are trained: where their rewards add up to the same in every "+
			"game, the mean says little, and those of each player say more")
	}
}

// point is the cell with the figures of its games.
func (c *cell) point() Point {
	p, r := c.Point, c.results
	p.Groups, p.Games, p.Longest = r.Groups, r.Reward.N, r.Longest
	p.Failed, p.Cancelled, p.Unusable = r.Tally.Failed, r.Tally.Cancelled, r.Unusable
	if r.Reward.N > 0 {
		reward := r.Reward.Interval(confidence)
		p.Reward = &reward
		if spread := r.Reward.Deviation(); !math.IsNaN(spread) {
			p.Spread = &spread
		}
	}
	for name, of := range r.Agents {
		if p.Agents == nil {
			p.Agents = map[string]stat.Interval{}
		}
		p.Agents[name] = of.Interval(confidence)
	}
	p.ZeroVariance = ratio(r.ZeroVariance, r.Groups)
	p.TokensPerTurn = ratio(int(r.OutputTokens), r.Sequences)
	if r.Sequences > 0 {
		p.TokensPerGame = ratio(int(r.OutputTokens), r.Lengths)
	}
	p.Invalid = ratio(int(r.Tally.Invalid), int(r.Tally.Answers))
	p.Cut = ratio(r.Tally.CutTurns, r.Tally.Turns)
	p.Truncated = ratio(r.Tally.Truncated, r.Tally.Games)
	p.Length = ratio(r.Phases, r.Lengths)
	return p
}

func ratio(n, of int) *float64 {
	if of == 0 {
		return nil
	}
	share := float64(n) / float64(of)
	return &share
}

// stretches are lengths of time that read well.
var stretches = []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute,
	15 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 24 * time.Hour}

// stretchOf is the length of a point by time.
func stretchOf(from, to time.Time, most int) time.Duration {
	for _, s := range stretches {
		if to.Sub(from) < time.Duration(most)*s {
			return s
		}
	}
	return to.Sub(from)/time.Duration(most) + 1
}
