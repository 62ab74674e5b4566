package experiment

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/settings"
)

// Combination is one cell of a part that is not read yet: where it stands, and what is set over the setting.
type Combination struct {
	At []Place
	// Set is KEY=VALUE, later ones over earlier ones; Paths is where each of them stands in the file.
	Set, Paths []string
}

// Combinations lists the cells of part p in the order of its axes, the last axis changing fastest.
func (e *Experiment) Combinations(p int) []Combination {
	part := e.Parts[p]
	path := fmt.Sprintf("parts[%d]", p)
	all := []Combination{{Set: part.Set, Paths: slices.Repeat([]string{path + ".set"}, len(part.Set))}}
	for a, axis := range part.Axes {
		var next []Combination
		for _, c := range all {
			for i, name := range axis.Names() {
				set, at := []string{axis.Key + "=" + name}, fmt.Sprintf("%s.axes[%d].values[%d]", path, a, i)
				if len(axis.Points) > 0 {
					set, at = axis.Points[i].Set, fmt.Sprintf("%s.axes[%d].points[%d].set", path, a, i)
				}
				next = append(next, Combination{
					At:    append(slices.Clone(c.At), Place{axis.Name, name}),
					Set:   append(slices.Clone(c.Set), set...),
					Paths: append(slices.Clone(c.Paths), slices.Repeat([]string{at}, len(set))...),
				})
			}
		}
		all = next
	}
	return all
}

// maxCells bounds the cells of a part.
const maxCells = 2000

var wellNamed = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// FormFaults is what is wrong with a file before its cells are read.
func (e *Experiment) FormFaults() settings.Faults {
	var faults settings.Faults
	if len(e.Parts) == 0 {
		faults.Add("parts", "is missing: an experiment has at least one part")
	}
	names := map[string]bool{}
	for p, part := range e.Parts {
		path := fmt.Sprintf("parts[%d]", p)
		if !wellNamed.MatchString(part.Name) && part.Name != "" || functions[part.Name] > 0 || part.Name == "and" ||
			part.Name == "or" {
			faults.Add(path+".name", "%q: want a-z 0-9 _, a letter first, and none of the words of expressions", part.Name)
		}
		if names[part.Name] {
			faults.Add(path+".name", "there are two parts %s", part.Name)
		}
		names[part.Name] = true
		part.axisFaults(path, &faults)
		for i, column := range part.Columns {
			if _, known := MetricNamed(column); !known {
				faults.Add(fmt.Sprintf("%s.columns[%d]", path, i), "there is no metric %s%s", column,
					meant(column, metricNames()))
			}
		}
	}
	return faults
}

func (p Part) axisFaults(path string, faults *settings.Faults) {
	cells := 1
	for a, axis := range p.Axes {
		at := fmt.Sprintf("%s.axes[%d]", path, a)
		if axis.Name != "" && !wellNamed.MatchString(axis.Name) {
			faults.Add(at+".name", "%q: want a-z 0-9 _, a letter first", axis.Name)
		}
		points := axis.Names()
		switch {
		case len(points) == 0:
			faults.Add(at, "no points: give key and values, or points")
		case len(axis.Points) > 0 && (axis.Key != "" || len(axis.Values) > 0):
			faults.Add(at, "give key and values, or points, not both")
		case len(axis.Points) == 0 && axis.Key == "":
			faults.Add(at+".key", "is missing: the key that takes the values")
		}
		for i, name := range points {
			if strings.ContainsAny(name, ",()=") || strings.TrimSpace(name) != name || slices.Index(points, name) < i {
				faults.Add(at, "point %q: names are given once, and without , ( ) =", name)
			}
		}
		if cells *= max(1, len(points)); cells > maxCells {
			faults.Add(path+".axes", "more than %d cells: divide the part", maxCells)
			return
		}
	}
}

// Faults is what is wrong with an experiment whose cells are read.
func (e *Experiment) Faults() settings.Faults {
	var faults settings.Faults
	for p, part := range e.Parts {
		part.faults(fmt.Sprintf("parts[%d]", p), &faults)
	}
	find := finder{e.Parts, func(part, cell int, metric string) ([]float64, bool) {
		return []float64{1}, e.Parts[part].Cells[cell].measures(metric)
	}}.find
	for i, c := range e.Claims {
		path := fmt.Sprintf("claims[%d]", i)
		if slices.ContainsFunc(e.Claims[:i], func(o Claim) bool { return o.Name == c.Name }) {
			faults.Add(path+".name", "there are two claims %s", c.Name)
		}
		if c.Check == "" && c.Expect != Undecided {
			faults.Add(path+".check", "is missing: without it nothing can be decided")
		}
		if c.Check != "" {
			check, err := parseTruth(c.Check)
			if err == nil {
				_, err = check.decide(find)
			}
			if err != nil {
				faults.Add(path+".check", "%v", err)
			}
		}
		for _, text := range []struct{ key, text string }{{"shows", c.Shows}, {"because", c.Because}} {
			if _, err := show(text.text, find); err != nil {
				faults.Add(path+"."+text.key, "%v", err)
			}
		}
	}
	return faults
}

func (p Part) faults(path string, faults *settings.Faults) {
	if p.Baseline != "" {
		places, err := parsePlaces(p.Baseline)
		if err == nil && len(places) == 0 {
			err = fmt.Errorf("want AXIS=POINT")
		}
		if err == nil {
			err = p.hasPlaces(places)
		}
		if err != nil {
			faults.Add(path+".baseline", "%v", err)
		}
	}
	for i, c := range p.Columns {
		if _, known := MetricNamed(c); known && len(p.Cells) > 0 && !p.Cells[0].measures(c) {
			faults.Add(fmt.Sprintf("%s.columns[%d]", path, i), "%s is not measured in cells of this kind", c)
		}
	}
	f := p.Figure
	if f.Kind == "" {
		return
	}
	for _, axis := range []struct{ key, name string }{{"x", f.X}, {"by", f.By}} {
		if axis.name == "" && axis.key == "by" || axis.name == "step" && axis.key == "x" {
			continue
		}
		if !slices.Contains(p.axisNames(), axis.name) {
			faults.Add(path+".figure."+axis.key, "%s has no axis %q%s", p.Name, axis.name, meant(axis.name, p.axisNames()))
		}
	}
	if _, known := MetricNamed(f.Y); !known {
		faults.Add(path+".figure.y", "there is no metric %q%s", f.Y, meant(f.Y, metricNames()))
	}
	if places, err := parsePlaces(f.Where); err != nil {
		faults.Add(path+".figure.where", "%v", err)
	} else if err := p.hasPlaces(places); err != nil {
		faults.Add(path+".figure.where", "%v", err)
	}
}

// hasPlaces reports whether all of these are points of the part's axes.
func (p Part) hasPlaces(places []Place) error {
	if i := slices.IndexFunc(p.Cells, func(c Cell) bool { return c.stands(places) }); i < 0 {
		_, err := p.cellAt(places)
		return err
	}
	return nil
}

// Faults is what is wrong with the setting of an open-loop cell, beside the rules of its keys.
func (s Setting) Faults() settings.Faults {
	var faults settings.Faults
	s.Arrivals.Validate(func(key, text string) { faults.Add("arrivals."+key, "%s", text) })
	t := s.Engine.Time
	given := t.PerBatch > 0 || t.PerRequest > 0 || t.PerToken > 0 || t.PerRequestToken > 0
	ways := 0
	for _, is := range []bool{given, len(t.Measured) > 0, t.Table != ""} {
		if is {
			ways++
		}
	}
	switch {
	case s.Engine.Batching == Continuous && s.Engine.Profile == "":
		faults.Add("engine.profile", "is missing: the hardware profile of the engines")
	case s.Engine.Batching == WholeBatches && ways == 0:
		faults.Add("engine.time", "is missing: how long a batch takes")
	case ways > 1:
		faults.Add("engine.time", "give one of a formula, measured times and a table")
	case t.Growth > 0 && (t.PerRequest > 0 || t.PerRequestToken > 0):
		faults.Add("engine.time.growth", "is for a time without per_request and per_request_token")
	}
	if s.Scaling.Target > 0 && s.Setup == "" {
		faults.Add("scaling.target", "is for a pipeline: give a setup")
	}
	if s.Assign != AssignFree && s.Lock {
		faults.Add("lock", "with a lock there is one queue: leave assign out")
	}
	return faults
}
