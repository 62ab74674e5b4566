package experiment

import (
	"fmt"
	"slices"
	"strings"
)

// combination is one cell of a part that is not read yet: where it stands, and what is set over the setting, KEY=VALUE,
// later ones over earlier ones.
type combination struct {
	at  []Place
	set []string
}

// combinations lists the cells of a part in the order of its axes, the last axis changing fastest.
func (p *Part) combinations() []combination {
	all := []combination{{set: p.Set}}
	for _, axis := range p.Axes {
		var next []combination
		for _, c := range all {
			for i, name := range axis.Names() {
				set := []string{axis.Key + "=" + name}
				if len(axis.Points) > 0 {
					set = axis.Points[i].Set
				}
				next = append(next, combination{append(slices.Clone(c.at), Place{axis.Name, name}),
					slices.Concat(c.set, set)})
			}
		}
		all = next
	}
	return all
}

// Names is the names of an axis's points.
func (a Axis) Names() []string {
	if len(a.Points) == 0 {
		return a.Values
	}
	names := make([]string, len(a.Points))
	for i, p := range a.Points {
		names[i] = p.Name
	}
	return names
}

// find is how expressions find the metrics of a result's cells.
func (r *Result) find(part string, places []Place, metric string) ([]float64, error) {
	p := slices.IndexFunc(r.Parts, func(p PartResult) bool { return p.Name == part })
	if p < 0 {
		return nil, fmt.Errorf("there is no part %s", part)
	}
	found := -1
	for i, cell := range r.Parts[p].Cells {
		if !stands(cell.At, places) {
			continue
		}
		if found >= 0 {
			return nil, fmt.Errorf("%s has several cells at %v: name a point of each of its axes", part, places)
		}
		found = i
	}
	if found < 0 {
		return nil, fmt.Errorf("%s has no cell at %v", part, places)
	}
	values, ok := r.Parts[p].Cells[found].Metrics[metric]
	if !ok {
		return nil, fmt.Errorf("%s has no metric %s", part, metric)
	}
	return values, nil
}

// stands reports whether a cell is at all of these places.
func stands(at, places []Place) bool {
	for _, place := range places {
		if !slices.Contains(at, place) {
			return false
		}
	}
	return true
}

// Name is "window=5s, load=busy".
func (c Cell) Name() string {
	texts := make([]string, len(c.At))
	for i, at := range c.At {
		texts[i] = at.Axis + "=" + at.Point
	}
	return strings.Join(texts, ", ")
}
