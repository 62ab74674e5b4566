package experiment

import (
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

// Name is "window=5s, load=busy".
func (c Cell) Name() string {
	texts := make([]string, len(c.At))
	for i, at := range c.At {
		texts[i] = at.Axis + "=" + at.Point
	}
	return strings.Join(texts, ", ")
}
