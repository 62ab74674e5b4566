package enginemodel

import (
	"math"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/kit/settings"
)

// check reports every figure that is missing, has no source or is impossible by itself.
func (p *Profile) check(reading settings.Reading) settings.Faults {
	faults := keys.Check(p, settings.Reading{Given: reading.Given, Faults: reading.Faults})
	// A figure that is not given has no kind either: what is missing is reported once, below.
	faults = slices.DeleteFunc(faults, func(f *settings.Fault) bool { return !reading.Given(f.Path) && f.Path != "name" })
	bounded := slices.ContainsFunc(physicalSections, reading.Given) // then all of it: one without the other says nothing
	for i := range rows {
		r := &rows[i]
		if reading.Faults.Has(r.path()) {
			continue
		}
		if !reading.Given(r.path()) {
			if !r.Optional && (bounded || !slices.Contains(physicalSections, r.Section)) {
				faults.Add(r.path(), "is missing: %s", r.Doc)
			}
			continue
		}
		for _, part := range []string{"value", "kind", "source"} {
			if at := settings.Join(r.path(), part); !reading.Given(at) {
				faults.Add(at, `is missing: a figure has value, kind and source, such as `+
					`{"value": 11.4, "kind": "measured", "source": "who, on what, when"}`)
			}
		}
		if at := r.path() + ".value"; reading.Given(at) && !reading.Faults.Has(at) {
			r.judge(&faults, r.of(p).Value)
		}
		if at := r.path() + ".source"; reading.Given(at) && strings.TrimSpace(r.of(p).Source) == "" {
			faults.Add(at, "must not be empty: where the figure comes from")
		}
	}
	return faults
}

// mostValue is above every figure that means something; products of two are still exact enough.
const mostValue = 1e12

// judge reports a value that is impossible by itself.
func (r *row) judge(faults *settings.Faults, v float64) {
	at := r.path() + ".value"
	switch {
	case r.Above && v <= r.Least:
		faults.Add(at, "%g is not more than %g: %s", v, r.Least, r.Doc)
	case v < r.Least:
		faults.Add(at, "%g is less than %g: %s%s", v, r.Least, r.Doc, r.shorter())
	case v > mostValue:
		faults.Add(at, "%g is more than %g: %s", v, mostValue, r.Doc)
	case r.Whole && v != math.Trunc(v):
		faults.Add(at, "%g is not a whole number: %s", v, r.Doc)
	}
}

// shorter says why a term of a step's time cannot be negative.
func (r *row) shorter() string {
	if r.Section != "step" {
		return ""
	}
	return "; a step would become shorter with more work"
}
