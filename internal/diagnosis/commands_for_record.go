package diagnosis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
)

// ForRecord has the report's commands read a record from a file, where no server is at hand. What changes a run or its
// fleet is said to be for where that run is; what only looks at it is left out.
func (r *Report) ForRecord(file string) {
	again := "millrace diagnose -f " + file
	next := []string{}
	for _, command := range r.Next {
		switch rest, diagnoses := strings.CutPrefix(command, "millrace diagnose "+string(r.Run)); {
		case diagnoses && rest != "":
			next = append(next, again+rest)
		case changesService(command):
			next = append(next, "where the run is: "+command)
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
	return slices.ContainsFunc([]string{
		"run set", "engine add", "engine remove", "engine drain", "fleet set", "worker", "probe",
	}, func(does string) bool { return strings.HasPrefix(command, "millrace "+does) })
}

// tellingStep is the step to look at second by second: the one that the first finding is about, or else the slowest.
func (r *Report) tellingStep() rollout.Step {
	if n := len(r.SlowSteps); n > 0 && len(r.Findings) == 0 {
		return r.SlowSteps[n-1].Step
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
