package gameslots

import "testing"

func TestSlotsFitMemory(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		memory int64
		shared bool
		want   int
	}{
		{"a small container", 256 << 20, false, 16},
		{"a container of 1 GiB", 1 << 30, false, 304},
		{"a container of 4 GiB plays a run of 2 x 64 x 8 games", 4 << 30, false, 1456},
		{"a machine with 8 GiB to spare", 8 << 30, true, 1968},
		{"a large machine", 512 << 30, true, 2048},
	} {
		if got := Fitting(tt.memory, tt.shared); got != tt.want {
			t.Errorf("%s: %d slots, want %d", tt.name, got, tt.want)
		}
	}
}
