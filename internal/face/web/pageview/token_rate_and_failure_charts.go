package pageview

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/face/web/runhistory"
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout"
)

// classes are those of series that have no colour of their own, and others is what is left of many.
var classes = []string{"a", "b", "c", "d", "e", "f", "g", "h"}

const others = "others"

// tally is amounts by name over equal stretches of a window.
type tally struct {
	w     Window
	parts int
	by    map[string][]float64
}

func newTally(w Window, parts int) *tally { return &tally{w, parts, map[string][]float64{}} }

// add spreads an amount evenly from one moment to another.
func (t *tally) add(name string, from, to, amount float64) {
	width := t.w.seconds() / float64(t.parts)
	first, last := (from-sec(t.w.From))/width, (to-sec(t.w.From))/width
	if last < 0 || first >= float64(t.parts) {
		return
	}
	row := t.by[name]
	if row == nil {
		row = make([]float64, t.parts)
		t.by[name] = row
	}
	if last-first < 1e-9 {
		row[min(max(int(first), 0), t.parts-1)] += amount
		return
	}
	for i := max(0, int(first)); i < t.parts && float64(i) < last; i++ {
		overlap := min(last, float64(i+1)) - max(first, float64(i))
		row[i] += amount * max(0, overlap) / (last - first)
	}
}

// names are the largest, in their order, and the others as one.
func (t *tally) names(order func(a, b string) int) []string {
	total := func(name string) float64 { return stat.Sum(slices.Values(t.by[name])) }
	all := slices.SortedFunc(maps.Keys(t.by), func(a, b string) int {
		return cmp.Or(cmp.Compare(total(b), total(a)), strings.Compare(a, b))
	})
	if len(all) > len(classes) {
		rest := make([]float64, t.parts)
		for _, name := range all[len(classes)-1:] {
			for i, v := range t.by[name] {
				rest[i] += v
			}
			delete(t.by, name)
		}
		t.by[others], all = rest, all[:len(classes)-1]
		slices.SortFunc(all, order)
		return append(all, others)
	}
	slices.SortFunc(all, order)
	return all
}

// draw is a chart of a tally, each amount times a factor.
func (t *tally) draw(p plot, factor float64, order func(a, b string) int) Panel {
	names := t.names(order)
	for i, name := range names {
		p.layers = append(p.layers, Legend{classes[i], name})
	}
	p.parts = t.w.means(nil, t.parts)
	for i := range p.parts {
		all, sum := make([]float64, len(names)), 0.0
		for k, name := range names {
			all[k] = t.by[name][i] * factor
			sum += all[k]
		}
		if sum > 0 {
			p.parts[i].values = all
		}
	}
	return t.w.draw(p)
}

// rateParts is how many stretches charts of rates and failures have.
const rateParts = 50

// tokenRates are tokens per second, by engine and by version, in both directions.
func (w Window) tokenRates(rates []runhistory.Rate) []Panel {
	type part struct {
		id, title string
		of        func(runhistory.Rate) string
		tokens    func(runhistory.Rate) int64
		order     func(a, b string) int
	}
	engine := func(r runhistory.Rate) string { return string(r.Engine) }
	ranges := versionRanges(rates, w)
	version := func(r runhistory.Rate) string { return ranges[r.Version] }
	byNumber := func(a, b string) int { return cmp.Compare(firstVersion(a), firstVersion(b)) }
	output := func(r runhistory.Rate) int64 { return r.Output }
	input := func(r runhistory.Rate) int64 { return r.Input }
	var panels []Panel
	for _, one := range []part{
		{"output-by-engine", "Output by engine", engine, output, strings.Compare},
		{"input-by-engine", "Input by engine", engine, input, strings.Compare},
		{"output-by-version", "Output by policy version", version, output, byNumber},
		{"input-by-version", "Input by policy version", version, input, byNumber},
	} {
		t := newTally(w, rateParts)
		for _, r := range rates {
			to := sec(r.At)
			t.add(one.of(r), to-r.WindowSec, to, float64(one.tokens(r)))
		}
		panels = append(panels, t.draw(plot{id: one.id, title: one.title, unit: "tok/s", says: "Tokens of this run's " +
			"answered requests, over wall time."}, float64(rateParts)/w.seconds(), one.order))
	}
	return panels
}

// versionRanges is what the versions of a window are called: each by itself, or neighbours as one, so that every
// version has a colour.
func versionRanges(rates []runhistory.Rate, w Window) map[rollout.PolicyVersion]string {
	names := map[rollout.PolicyVersion]string{}
	for _, r := range rates {
		if sec(r.At) >= sec(w.From) && sec(r.At)-r.WindowSec <= sec(w.To) {
			names[r.Version] = ""
		}
	}
	all := slices.Sorted(maps.Keys(names))
	per := max(1, (len(all)+len(classes)-1)/len(classes))
	for i := 0; i < len(all); i += per {
		some := all[i:min(len(all), i+per)]
		name := fmt.Sprintf("v%d", some[0])
		if last := some[len(some)-1]; last != some[0] {
			name += fmt.Sprintf(" to v%d", last)
		}
		for _, v := range some {
			names[v] = name
		}
	}
	return names
}

// firstVersion is the first version of a range.
func firstVersion(name string) int {
	n := 0
	_, _ = fmt.Sscanf(name, "v%d", &n) // all names are versions
	return n
}

// failures are failed attempts and dropped groups by code.
func (w Window) failures(all []runhistory.Failure) Panel {
	t := newTally(w, rateParts)
	for _, f := range all {
		t.add(string(f.Code), sec(f.At), sec(f.At), 1)
	}
	return t.draw(plot{id: "failures", title: "Failed attempts and dropped groups by code", says: "Attempts at games " +
		"that failed, and groups that will not be trained on."}, 1, strings.Compare)
}
