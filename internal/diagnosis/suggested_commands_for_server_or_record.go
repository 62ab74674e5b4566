package diagnosis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
)

const (
	addEngine = "millrace engine add URL"
	showFleet = "millrace engine scaling"
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
	return "millrace engine scaling " + strings.Join(settings, " ")
}

// moreEngines is the command that gives the run engines, however many; empty: none does.
func (m *measurements) moreEngines() string {
	if m.in.Scaling == nil {
		return addEngine
	}
	return m.enginesCommand(min(2*max(1, m.in.Scaling.Wanted), m.in.Scaling.Most))
}

// ForRecord makes the report's commands read a record from a file, where no server is at hand. Commands that change a
// run or its fleet are marked as for the run's server; commands that only read are left out.
func (r *Report) ForRecord(file string) {
	again := "millrace diagnose -f " + file
	next := []string{}
	for _, command := range r.Next {
		switch rest, diagnoses := strings.CutPrefix(command, "millrace diagnose "+string(r.Run)); {
		case changesService(command):
			next = append(next, "where the run is: "+command)
		case diagnoses && rest != "":
			next = append(next, again+rest)
		case !strings.HasPrefix(command, "millrace "):
			next = append(next, command)
		}
	}
	if one := r.tellingStep(); one >= r.From && one <= r.To && r.Steps > 1 {
		next = append(next, fmt.Sprintf("%s --step %d", again, one))
	}
	if n := len(r.Levels); n > 1 {
		next = append(next, fmt.Sprintf("%s --from %d --to %d", again, r.Levels[n-1].From, r.Levels[n-1].To))
	}
	r.Next = withoutRepeats(next)
}

// ForRecord has the commands read a record from a file.
func (t *StepTimeline) ForRecord(file string) {
	for i := range t.Next {
		t.Next[i] = strings.Replace(t.Next[i], "millrace diagnose "+string(t.Run), "millrace diagnose -f "+file, 1)
	}
}

// changesService reports whether a command does something to a run or its fleet.
func changesService(command string) bool {
	return strings.HasSuffix(command, " --probe") || slices.ContainsFunc([]string{
		"run set", "engine add", "engine remove", "engine drain", "engine scaling ", "worker",
	}, func(does string) bool { return strings.HasPrefix(command, "millrace "+does) })
}

// tellingStep is the step to look at second by second: the one that the first finding is about, or else the slowest.
func (r *Report) tellingStep() rollout.Step {
	if len(r.Findings) == 0 && r.Ledger != nil {
		for _, loss := range r.Ledger.Losses {
			if loss.Cause == CauseSingleStep {
				return loss.Worst
			}
		}
	}
	if len(r.Findings) > 0 && r.Findings[0].Since != nil {
		return *r.Findings[0].Since
	}
	return r.To
}

// withoutRepeats is the commands, each once.
func withoutRepeats(commands []string) []string {
	out := []string{}
	for _, c := range commands {
		if !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return out
}
