package settings

import "testing"

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"depth", "groups_per_step", "max_staleness", "on_stale"}
	for word, want := range map[string]string{
		"depht": "depth", "Depth": "depth", "group_per_steps": "groups_per_step", "maxStaleness": "max_staleness",
		"stale": "", "xyz": "", "": "",
	} {
		if got := Nearest(word, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}
