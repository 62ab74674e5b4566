package cli

import (
	"strings"
	"testing"
)

// TestCompletion offers names that are there.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{"run show ": "demo\trunning", "run set demo buffer.d": "buffer.depth=\t1 " +
		"to 64", "engine drain ": "gpu7\tready", "engine scaling max=8 mi": "min=\tengines at least"} {
		words := append([]string{"__complete"}, strings.Split(args, " ")...)
		if got, _ := command(t, answers, "", nil, words...); !strings.Contains(got.stdout, want) {
			t.Errorf("%s: %q, want %q (%v)", args, got.stdout, want, got.err)
		}
	}
}
