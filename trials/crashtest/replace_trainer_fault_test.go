package crashtest

import "testing"

func TestGenerationOfATrainerProcess(t *testing.T) {
	t.Parallel()
	events := []event{
		{Event: attached, PID: 11, Generation: 1}, {Event: recorded, Generation: 1},
		{Event: attached, PID: 12, Generation: 2}, {Event: attached, PID: 12, Generation: 4},
		{Event: attached, PID: 13, Generation: 3},
	}
	for _, tt := range []struct {
		name string
		pid  int
		want int64
	}{
		{"killed since", 11, 1},
		{"attached twice", 12, 4},
		{"replaced meanwhile", 13, 3},
		{"has not announced itself", 14, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := generationOf(events, tt.pid); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}
