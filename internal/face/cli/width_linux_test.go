package cli

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal opens a terminal of this width.
func openTerminal(t *testing.T, columns uint16) *os.File {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no terminals can be made here:", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	return terminal
}

// Tables fit the terminal, whose width shells know and do not pass on, and are whole in a file.
func TestWidthIsTheTerminals(t *testing.T) {
	t.Parallel()
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, tt := range []struct {
		name    string
		out     *os.File
		columns string // the variable
		want    int
	}{
		{"a terminal", openTerminal(t, 60), "", 60},
		{"a terminal, told otherwise", openTerminal(t, 60), "100", 100},
		{"a terminal that does not say", openTerminal(t, 0), "", 0},
		{"a file", file, "60", 0},
	} {
		s := &session{}
		s.Stdout, s.Getenv = tt.out, func(string) string { return tt.columns }
		if got := s.width(); got != tt.want {
			t.Errorf("%s: %d columns, want %d", tt.name, got, tt.want)
		}
	}
}
