package faultsuite

import (
	"fmt"
	"slices"
	"sync"

	"github.com/millrace/millrace/internal/diagnosis"
)

// Outcome is what a diagnosis said of one run of a case.
type Outcome struct {
	Case    *Case
	Scale   int
	Seed    uint64
	Verdict diagnosis.Verdict
	Said    diagnosis.CauseName   // first; empty: nothing is wrong
	Others  []diagnosis.CauseName // named after it
	Text    string                // of the first finding
	Advice  []Advice
	Err     error
	Played  Played `json:"-"`
	Report  diagnosis.Report
}

// Right reports whether the first cause is the one that was injected, or none where none was.
func (o *Outcome) Right() bool {
	if o.Err != nil {
		return false
	}
	if o.Case.Healthy() {
		return o.Said == ""
	}
	return slices.Contains(o.Case.Want, o.Said)
}

// Named reports whether the cause is among those that were named.
func (o *Outcome) Named() bool {
	return o.Right() || slices.ContainsFunc(o.Others, func(c diagnosis.CauseName) bool {
		return slices.Contains(o.Case.Want, c)
	})
}

// WrongFixes are the changes that do not do what was said.
func (o *Outcome) WrongFixes() []Advice {
	var out []Advice
	for _, a := range o.Advice {
		if a.Wrong {
			out = append(out, a)
		}
	}
	return out
}

// Trials says which runs are played.
type Trials struct {
	Scales []int
	Seeds  []uint64
	Advice bool // play what is advised
	// Known is what changes were found to do before, and is added to; nil: nothing is kept. A run is the same each time.
	Known   *Known
	Workers int
}

// Try plays and diagnoses every case, in their order.
func Try(cases []Case, t Trials) []Outcome {
	var out []Outcome
	for i := range cases {
		for _, scale := range t.Scales {
			for _, seed := range t.Seeds {
				out = append(out, Outcome{Case: &cases[i], Scale: scale, Seed: seed})
			}
		}
	}
	next := make(chan *Outcome)
	var workers sync.WaitGroup
	for range max(1, t.Workers) {
		workers.Go(func() {
			for o := range next {
				o.play(t)
			}
		})
	}
	for i := range out {
		next <- &out[i]
	}
	close(next)
	workers.Wait()
	return out
}

func (o *Outcome) play(t Trials) {
	defer func() {
		if r := recover(); r != nil {
			o.Err = fmt.Errorf("panic: %v", r)
		}
	}()
	played, err := o.Case.Play(o.Scale, o.Seed)
	if err != nil {
		o.Err = err
		return
	}
	report := diagnosis.Diagnose(played.Input)
	o.Report, o.Verdict, o.Played = report, report.Verdict, Played{StepSec: played.StepSec}
	for i, f := range report.Findings {
		if i == 0 {
			o.Said, o.Text = f.Cause, f.Text
			continue
		}
		o.Others = append(o.Others, f.Cause)
	}
	for _, c := range report.Causes {
		if c.Decision == diagnosis.IsCause && c.Name != o.Said && !slices.Contains(o.Others, c.Name) {
			o.Others = append(o.Others, c.Name)
		}
	}
	if t.Advice && played.With != nil {
		with := played.With
		played.With = func(c Change) (float64, bool) {
			return t.Known.with(fmt.Sprintf("%s/%d/%d/%+v", o.Case.Name, o.Scale, o.Seed, c), c, with)
		}
		o.Advice = try(report.WhatIfs, played)
	}
}
