package diplomacyview

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/game/diplomacy"
	"github.com/millrace/millrace/internal/kit/termtext"
)

// Formats of what is written to a terminal.
const (
	Table = "table"
	JSON  = "json"
)

// CheckFormat reports whether there is such a format; the empty one is Table.
func CheckFormat(format string) error {
	switch format {
	case "", Table, JSON:
		return nil
	}
	return fmt.Errorf("format %q is neither %s nor %s", format, Table, JSON)
}

// ShowOptions say how a game is shown.
type ShowOptions struct {
	Format string // Table or JSON, the saved game itself; empty is Table
	Phase  string // only this phase, such as F1903M; empty is all
	Width  int    // of a line, 0: 100
	Color  bool   // for terminals
}

const defaultWidth = 100

// Show writes a game: every phase's orders with what became of them, and the centres by year. A game on a board that is
// not known here is shown too, as it was saved, with its orders unchecked.
func Show(w io.Writer, game *diplomacy.SavedGame, o ShowOptions) error {
	if err := CheckFormat(o.Format); err != nil {
		return err
	}
	if len(game.Phases) == 0 {
		return fmt.Errorf("game %q has no phases", game.ID)
	}
	if o.Format == JSON {
		return writeJSON(w, game)
	}
	m, known := mapOf(game)
	powers := powersOf(game)
	if known {
		powers = m.Powers()
	}
	t := newTable(powers, o.Width, o.Color)
	found := false
	for i := range game.Phases {
		if o.Phase != "" && !strings.EqualFold(o.Phase, game.Phases[i].Name) {
			continue
		}
		found = true
		name, lines, err := readLines(m, powers, &game.Phases[i])
		if err != nil {
			return fmt.Errorf("show game %s: %w", game.ID, err)
		}
		t.phase(name, lines)
	}
	if o.Phase != "" && !found {
		return fmt.Errorf("game %s has no phase %s", game.ID, o.Phase)
	}
	if o.Phase == "" {
		if err := t.centers(powers, game); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, t.b.String())
	return err
}

func writeJSON(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// table is text while it is written.
type table struct {
	b     strings.Builder
	width int
	names int // width of the powers' names, and what keeps them from their orders
	color bool
}

func newTable(powers []string, width int, color bool) *table {
	t := &table{width: width, names: nameWidth, color: color}
	if t.width <= 0 {
		t.width = defaultWidth
	}
	for _, name := range powers {
		t.names = max(t.names, len(name)+2)
	}
	return t
}

const (
	ansiBold = "1"
	ansiRed  = "31"
)

func (t *table) paint(code, text string) string {
	if !t.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// nameWidth is enough for the powers of the standard board.
const nameWidth = 10

// phase writes one block: a line of title, and each power's orders.
func (t *table) phase(p diplomacy.Phase, lines []line) {
	fmt.Fprintf(&t.b, "%s\n", t.paint(ansiBold, fmt.Sprintf("%-10s%s", p, title(p))))
	for _, l := range lines {
		fmt.Fprintf(&t.b, "  %-*s", t.names, termtext.Line(displayName(l.power)))
		t.orders(l.orders)
	}
	t.b.WriteByte('\n')
}

// orders writes a power's orders one after the other, in lines no longer than the width.
func (t *table) orders(list []order) {
	indent := 2 + t.names
	if len(list) == 0 {
		t.b.WriteString("no orders\n")
		return
	}
	at := indent
	for i, o := range list {
		text := termtext.Line(o.text)
		length := termtext.Width(text)
		if o.failed() {
			reason := termtext.Line("(" + strings.Join(o.results, ", ") + ")")
			text += " " + t.paint(ansiRed, reason)
			length += 1 + termtext.Width(reason)
		}
		if i > 0 && at+2+length > t.width {
			fmt.Fprintf(&t.b, "\n%*s", indent, "")
			at = indent
		} else if i > 0 {
			t.b.WriteString("  ")
			at += 2
		}
		t.b.WriteString(text)
		at += length
	}
	t.b.WriteByte('\n')
}

// centers writes how many centres each power has after each year, and before the first.
func (t *table) centers(powers []string, game *diplomacy.SavedGame) error {
	years, counts, err := centersByYear(powers, game)
	if err != nil {
		return err
	}
	perLine := max(1, (t.width-t.names-2)/6)
	for len(years) > 0 {
		n := min(perLine, len(years))
		t.b.WriteString(t.paint(ansiBold, fmt.Sprintf("%-*s", t.names+2, "Centres")))
		for _, y := range years[:n] {
			t.b.WriteString(t.paint(ansiBold, fmt.Sprintf("%6s", y)))
		}
		t.b.WriteByte('\n')
		for p, name := range powers {
			fmt.Fprintf(&t.b, "  %-*s", t.names, termtext.Line(displayName(name)))
			for _, c := range counts[:n] {
				fmt.Fprintf(&t.b, "%6d", c[p])
			}
			t.b.WriteByte('\n')
		}
		years, counts = years[n:], counts[n:]
	}
	return nil
}

// centersByYear is the centres at the start and after every year that was played, by power.
func centersByYear(powers []string, game *diplomacy.SavedGame) (years []string, counts [][]int, err error) {
	for i := range game.Phases {
		p, err := diplomacy.ParsePhase(game.Phases[i].Name)
		if err != nil {
			return nil, nil, fmt.Errorf("game %s: %w", game.ID, err)
		}
		count := make([]int, len(powers))
		for k, name := range powers {
			count[k] = len(game.Phases[i].State.Centers[name])
		}
		label := strconv.Itoa(int(p.Year))
		switch {
		case i == 0:
			years, counts = append(years, "start"), append(counts, count)
		case p.Type == diplomacy.Adjustment:
			years, counts = append(years, label), append(counts, count)
		case p.Type == diplomacy.Completed:
			years, counts = append(years, "end"), append(counts, count)
		case p.Season == diplomacy.Spring && p.Type == diplomacy.Movement &&
			years[len(years)-1] != strconv.Itoa(int(p.Year)-1):
			// Nobody had to build or remove: the year has no phase of its own to tell of it.
			years, counts = append(years, strconv.Itoa(int(p.Year)-1)), append(counts, count)
		}
	}
	return years, counts, nil
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if strings.HasSuffix(what, "ch") {
		what += "e"
	}
	return strconv.Itoa(n) + " " + what + "s"
}
