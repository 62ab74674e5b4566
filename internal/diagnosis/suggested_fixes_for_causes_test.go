package diagnosis

import (
	"testing"

	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/spec"
)

// TestCheckedCommands: a fix's command changes something, and the run takes it; else there is none.
func TestCheckedCommands(t *testing.T) {
	t.Parallel()
	of := spec.Default()
	of.Name, of.Model, of.Steps = "demo", "base", 100
	of.Buffer.Depth, of.Buffer.MaxStaleness = 2, 2
	of.Buffer.OnStale = runspec.DropStale
	for _, tt := range []struct {
		name, command, want string
		over                bool
	}{
		{"a setting", "millrace run set demo buffer.on_stale=wait", "millrace run set demo buffer.on_stale=wait", false},
		{"that it has", "millrace run set demo buffer.on_stale=drop", "", false},
		{"that it refuses", "millrace run set demo buffer.depth=100000", "", false},
		{"of no such key", "millrace run set demo buffer.deep=1", "", false},
		{"of a run that is over", "millrace run set demo buffer.on_stale=wait", "", true},
		{"something else", addEngine, addEngine, false},
		{"something else, too late", addEngine, "", true},
	} {
		m := &measurements{in: Input{Spec: of, Over: tt.over}}
		if got := checked(m, tt.command); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	over := &measurements{in: Input{Spec: of, Over: true}}
	const want = "wait for them; in the spec of the next run: buffer.on_stale=wait"
	if f := fix(over, "wait for them", setCommand(over, "buffer.on_stale=wait")); f.Text != want || f.Command != "" {
		t.Errorf("%+v, want %q", f, want)
	}
}

// TestAnIntervalThatReachesZeroIsNoCause: what may be nothing is possible, however much it may be.
func TestAnIntervalThatReachesZeroIsNoCause(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		share Share
		want  Decision
	}{
		{Share{Of: 0.9, Low: 0.8, High: 1}, IsCause},
		{Share{Of: 0.9, Low: 0, High: 2.8}, Possible},
		{Share{Of: 0.4, Low: -0.1, High: 0.8}, Possible},
		{Share{Of: 0.3, Low: 0.2, High: 0.4}, Contributes},
		{Share{Of: 0.01, Low: -0.1, High: 0.1}, notACause},
	} {
		if got := decisionOf(tt.share); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.share, got, tt.want)
		}
	}
}
