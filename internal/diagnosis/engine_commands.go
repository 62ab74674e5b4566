package diagnosis

import (
	"fmt"
	"strings"
)

const (
	addEngine = "millrace engine add URL"
	showFleet = "millrace fleet show"
)

// enginesCommand is the command that gives the run so many engines; empty: none does. Where the fleet is scaled, an
// engine that is added by hand takes the place of one that was bought: then it is the bounds of scaling that are moved.
func (m *measurements) enginesCommand(to int) string {
	now := m.in.Scaling
	switch {
	case now == nil:
		return addEngine
	case to > now.Most:
		return ""
	case to <= now.Wanted:
		return showFleet // they are on their way
	}
	var settings []string
	if to > now.Max {
		settings = append(settings, fmt.Sprintf("max=%d", to))
	}
	if to > now.Affordable {
		settings = append(settings, "budget_per_hour="+dollarsFor(to, now.Price))
	}
	bought := m.in.Spec.MaxEngines
	switch {
	case now.Fixed:
		settings = append(settings, fmt.Sprintf("engines=%d", to))
	case len(settings) == 0 && bought > 0 && to > bought:
		return setCommand(m, fmt.Sprintf("max_engines=%d", to))
	case len(settings) == 0: // scaling may have as many, and does not want them
		settings = append(settings, fmt.Sprintf("min=%d", to))
	}
	return "millrace fleet set " + strings.Join(settings, " ")
}

// moreEngines is the command that gives the run engines, however many; empty: none does.
func (m *measurements) moreEngines() string {
	if m.in.Scaling == nil {
		return addEngine
	}
	return m.enginesCommand(min(2*max(1, m.in.Scaling.Wanted), m.in.Scaling.Most))
}
