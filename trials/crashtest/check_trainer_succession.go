package crashtest

import (
	"maps"
	"slices"
)

// term is what one trainer process did, as it says itself.
type term struct {
	generation int64
	known      bool   // it said where it began
	from       int64  // first step it had to do
	resumed    *int64 // as it asked
	trained    []trained
	recorded   []int64
}

// termsOf sorts what trainers wrote by generation, the earliest first. A trainer that was killed between being
// announced and saying so did nothing else.
func termsOf(o outcome) []*term {
	terms := map[int64]*term{}
	of := func(generation int64) *term {
		if terms[generation] == nil {
			terms[generation] = &term{generation: generation}
		}
		return terms[generation]
	}
	for _, e := range o.events {
		t := of(e.Generation)
		switch e.Event {
		case attached:
			t.known, t.from, t.resumed = true, e.Step, e.ResumeFrom
		case recorded:
			t.recorded = append(t.recorded, e.Step)
		}
	}
	for _, line := range o.journal {
		t := of(line.Generation)
		t.trained = append(t.trained, line)
	}
	sorted := slices.Collect(maps.Values(terms))
	slices.SortFunc(sorted, func(a, b *term) int { return int(a.generation - b.generation) })
	return sorted
}

// succession checks that trainers followed one another as promised: each begins where it asked to, or at the first
// step not recorded, and goes on without a gap; a step that was recorded is trained again only by one that went
// back behind it; and each record is that of the last trainer entitled to it.
func (f *findings) succession(o outcome) {
	for _, e := range o.events {
		if e.Event == fenced {
			f.refused++
		}
	}
	terms := termsOf(o)
	done := map[int64]int64{} // recorded steps that no later trainer went back behind: by whom
	for _, t := range terms {
		f.term(t, done)
	}
	if missing := unrecorded(o.records, min(o.plan.cfg.Steps, int(o.account.NextStep))); len(missing) > 0 {
		f.holes += len(missing)
		f.complain("steps %d were completed, and are not any more", missing)
	}
	for _, record := range o.records {
		if record.LostRecord || !record.Done {
			continue
		}
		f.record(int64(record.Step), int64(record.Generation), record.Trainer.WallSec, terms)
	}
	if len(o.records) != o.plan.cfg.Steps {
		f.complain("%d records are kept of %d steps", len(o.records), o.plan.cfg.Steps)
	}
}

// term checks one trainer against what was done before it, and adds its own.
func (f *findings) term(t *term, done map[int64]int64) {
	if !t.known && len(t.trained) > 0 {
		f.complain("the trainer of generation %d was never announced", t.generation)
		return
	}
	if t.resumed != nil && t.from != *t.resumed {
		f.complain("the trainer of generation %d resumed from step %d and was sent to step %d", t.generation,
			*t.resumed, t.from)
	}
	back := map[int64]bool{}
	for step, by := range done {
		switch {
		case !t.known || step < t.from:
		case t.resumed == nil:
			f.duplicated++
			f.complain("step %d was recorded by generation %d and given to generation %d, which did not go back", step,
				by, t.generation)
		default:
			back[step] = true
			delete(done, step)
		}
	}
	for i, line := range t.trained {
		if want := t.from + int64(i); line.Step != want {
			f.complain("the trainer of generation %d trained step %d where step %d was due", t.generation, line.Step, want)
		}
		if back[line.Step] {
			f.rewound++
		}
	}
	for _, step := range t.recorded {
		done[step] = t.generation
	}
}

// record checks who made a step's last record: a trainer that trained it and said the same, and that nobody
// replaced before the step was done. A trainer answers for every step from its first one on.
func (f *findings) record(step, generation int64, wallSec float64, terms []*term) {
	said := false
	for _, t := range terms {
		if t.generation > generation && t.known && t.from <= step {
			f.complain("step %d has the record of generation %d, which generation %d had replaced from step %d on", step,
				generation, t.generation, t.from)
		}
		said = said || t.generation == generation && slices.ContainsFunc(t.trained, func(line trained) bool {
			return line.Step == step && line.WallSec == wallSec
		})
	}
	if !said {
		f.complain("step %d has a record that the trainer of generation %d did not send", step, generation)
	}
}
