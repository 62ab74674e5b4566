package faultsuite

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/diagnosis"
)

// Advice is one change that the diagnosis predicted, and what came of it.
type Advice struct {
	Change  string
	Outcome diagnosis.Outcome
	SaidSec float64
	TrueSec float64
	NowSec  float64 // without the change, played
	Error   float64 // of the step time
	Inside  bool    // the true step time is in the range that was said
	Wrong   bool    // it was said to help and does not, or not to and does
}

var (
	enginesChange   = regexp.MustCompile(`^engines (\d+) -> (\d+)`)
	stalenessChange = regexp.MustCompile(`^max_staleness (\d+) -> (\d+)$`)
	depthChange     = regexp.MustCompile(`^depth (\d+) -> (\d+)`)
)

// helpsFrom is the gain from which a change helps; what is a little above or below is neither right nor wrong.
const helpsFrom, unclear = 0.05, 0.04

// try does what is advised, as far as it can be done.
func try(whatIfs []diagnosis.WhatIf, played Played) []Advice {
	var out []Advice
	now := 0.0
	for _, w := range whatIfs {
		var c Change
		if m := enginesChange.FindStringSubmatch(w.Change); m != nil {
			c.Engines = number(m[2]) - number(m[1])
		} else if m := depthChange.FindStringSubmatch(w.Change); m != nil {
			if c.Depth = number(m[2]); w.Staler {
				c.MaxStaleness = c.Depth
			}
		} else if m := stalenessChange.FindStringSubmatch(w.Change); m != nil {
			c.MaxStaleness = number(m[2])
		} else {
			continue
		}
		if now == 0 {
			now, _ = played.With(Change{})
		}
		sec, ok := played.With(c)
		if !ok {
			continue
		}
		a := Advice{Change: w.Change, Outcome: w.Outcome, SaidSec: w.StepSec, TrueSec: sec, NowSec: now,
			Error: math.Abs(w.StepSec/sec - 1), Inside: sec >= w.LowSec && sec <= w.HighSec}
		gain := 1 - sec/now
		switch w.Outcome {
		case diagnosis.Helps:
			a.Wrong = gain < helpsFrom-unclear
		case diagnosis.HelpsNot:
			a.Wrong = gain > helpsFrom+unclear
		case diagnosis.Worse:
			a.Wrong = gain > unclear
		}
		out = append(out, a)
	}
	return out
}

func number(s string) int {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil {
		return 0
	}
	return n
}
