package buffer

import "testing"

// TestAnswersAreDeclared: what a script does not declare that it may answer is no answer.
func TestAnswersAreDeclared(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		sc   *script
		r    reply
		want bool
	}{
		{attachScript, reply{"ok", int64(2), "7", []any{int64(1), "2"}}, true},
		{attachScript, reply{"run-over"}, true},
		{attachScript, reply{"ok", int64(2)}, false},
		{attachScript, reply{"ok", int64(2), "seven", []any{int64(1), "2"}}, false},
		{attachScript, reply{"ok", int64(2), int64(7), int64(8)}, false},
		{attachScript, reply{"fenced", int64(2)}, false},
		{attachScript, nil, false},
		{unheardScript, reply{"ok", []any{"1", "2"}}, true},
		{unheardScript, reply{"ok", []any{"1", nil}}, false},
		{unheardScript, reply{"ok", "1"}, false},
		{versionScript, reply{"ok", "1"}, false},
		{departuresScript, reply{"ok", []any{"0 stale"}}, false},
	} {
		if got := tt.sc.declares(tt.r); got != tt.want {
			t.Errorf("%s: %v: declared is %v", tt.sc.name, tt.r, got)
		}
	}
}
