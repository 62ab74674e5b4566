package units

import "testing"

// Three digits or so, no trailing zero, and no sign of nothing.
func TestWriting(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		Few([]string{"a", "b"}, 2): "a, b", Few([]string{"a", "b", "c"}, 2): "a, b and 1 more", Few(nil, 2): "",
		Seconds(0.004): "0 s", Seconds(0.42): "0.42 s", Seconds(8.25): "8.2 s", Seconds(8): "8 s", Seconds(149.6): "150 s",
		SignedSeconds(150): "+150 s", SignedSeconds(-8.3): "-8.3 s", SignedSeconds(-0.004): "0 s",
		Percent(0.125): "13 %", Percent(-0.001): "0 %", Percent(1): "100 %",
		Bytes(999): "999 B", Bytes(40 << 10): "40 KiB", Bytes(1000): "0.98 KiB", Bytes(1 << 30): "1 GiB",
		Bytes(1 << 51): "2048 TiB",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
