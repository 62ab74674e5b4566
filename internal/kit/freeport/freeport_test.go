package freeport

import (
	"net"
	"os"
	"strconv"
	"testing"
)

func TestAPortIsOutsideOfTheKernelsRange(t *testing.T) {
	for _, c := range []struct {
		name      string
		low, high int
		want      func(port int) bool
	}{
		{"Linux", 32_768, 60_999, func(p int) bool { return first <= p && p < 32_768 || 60_999 < p && p <= last }},
		{"Darwin", 49_152, 65_535, func(p int) bool { return first <= p && p < 49_152 }},
		{"a range from low on", 1_024, 40_000, func(p int) bool { return 40_000 < p && p <= last }},
		{"a range of low ports", 1_024, 9_999, func(p int) bool { return first <= p && p <= last }},
		{"nothing is left", 1_024, 65_535, func(p int) bool { return p == 0 }},
		{"hardly anything is left", 16_400, 65_000, func(p int) bool { return p == 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := make(map[int]bool)
			for n := range uint32(1_000) {
				port := choose(c.low, c.high, n)
				if !c.want(port) {
					t.Fatalf("%d is chosen where the kernel has %d to %d", port, c.low, c.high)
				}
				if port != 0 && seen[port] {
					t.Fatalf("%d is chosen again", port)
				}
				seen[port] = true
			}
		})
	}
}

func TestTheKernelsRange(t *testing.T) {
	for _, c := range []struct {
		told      string
		err       error
		low, high int
	}{
		{"32768\t60999\n", nil, 32_768, 60_999},
		{"", os.ErrNotExist, 49_152, 65_535},
		{"nonsense", nil, 49_152, 65_535},
		{"9 1", nil, 49_152, 65_535},
	} {
		if low, high := ephemeral([]byte(c.told), c.err); low != c.low || high != c.high {
			t.Errorf("%q, %v: %d to %d, want %d to %d", c.told, c.err, low, high, c.low, c.high)
		}
	}
}

// Whoever asks while others listen gets another port.
func TestAPortIsFree(t *testing.T) {
	for range 200 {
		address, err := Address()
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
	}
	port, err := Port()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}
