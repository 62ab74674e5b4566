package cli

import (
	"io"
	"os"
	"strconv"

	"github.com/mattn/go-isatty"
	"golang.org/x/sys/unix"
)

// narrowest is a terminal that something can be shown on.
const narrowest = 40

func (s *session) width() int { return Width(s.Stdout, s.Getenv) }

// Width is the columns of the terminal behind w, or what COLUMNS says; 0 when w is no terminal or does not tell.
func Width(w io.Writer, getenv func(string) string) int {
	if !terminal(w) {
		return 0
	}
	columns, err := strconv.Atoi(getenv("COLUMNS"))
	if err != nil {
		columns = columnsOf(w)
	}
	if columns < narrowest {
		return 0
	}
	return columns
}

// columnsOf asks a terminal for its width; 0 when it does not say.
func columnsOf(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// terminal reports whether a person looks at what is written to w.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
