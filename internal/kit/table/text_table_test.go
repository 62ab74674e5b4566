package table_test

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/kit/table"
)

func TestWrite(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		columns []table.Column
		rows    [][]string
		width   int
		want    []string
	}{
		{"names left, numbers right", []table.Column{table.Left("RUN"), table.Right("STEP")},
			[][]string{{"a", "7"}, {"longer", "1234"}}, 0,
			[]string{"RUN     STEP", "a          7", "longer  1234"}},
		{"no rows", []table.Column{table.Left("RUN"), table.Right("STEP")}, nil, 0, []string{"RUN  STEP"}},
		{"no heads", []table.Column{{}, {Right: true}}, [][]string{{"state", "1"}, {"a", "22"}}, 0,
			[]string{"state   1", "a      22"}},
		{"missing and surplus cells", []table.Column{table.Left("A"), table.Left("B")},
			[][]string{{"x"}, {"x", "y", "z"}}, 0, []string{"A  B", "x", "x  y"}},
		{"the widest name is cut", []table.Column{table.Left("NAME"), table.Right("TOKENS"), table.Left("WHY")},
			[][]string{{"a-very-long-name", "123456", "because of this"}}, 30,
			[]string{"NAME        TOKENS  WHY", "a-very-lo…  123456  because o…"}},
		{"numbers are never cut, but left out", []table.Column{table.Right("A"), table.Right("B")},
			[][]string{{"123456789", "123456789"}}, 15, []string{"        A", "123456789", "(no room for B)"}},
		{"names are shortened before numbers are left out, the last ones first",
			[]table.Column{table.Left("ENGINE"), table.Right("IN tok/s"), table.Right("OUT tok/s"), table.Left("REASON")},
			[][]string{{"gpu-box-17", "1200", "350", "it is away"}}, 30,
			[]string{"ENGINE     IN tok/s  REASON", "gpu-box-…      1200  it is aw…", "(no room for OUT tok/s)"}},
		{"values without headings go on in the next line", []table.Column{{}, {}},
			[][]string{{"state", "failed: no engine serves the model"}, {"step", "1 of 2"}}, 22,
			[]string{"state  failed: no", "       engine serves", "       the model", "step   1 of 2"}},
		{"letters beyond ASCII", []table.Column{table.Left("TOWN"), table.Right("N")},
			[][]string{{"Kraków", "1"}, {"Rome", "2"}}, 0, []string{"TOWN    N", "Kraków  1", "Rome    2"}},
		{"wide and combining letters", []table.Column{table.Left("TOWN"), table.Right("N")},
			[][]string{{"東京", "1"}, {"Krako\u0301w", "2"}, {"Rome", "3"}}, 0,
			[]string{"TOWN    N", "東京    1", "Krako\u0301w  2", "Rome    3"}},
		{"a wide name is cut between its letters", []table.Column{table.Left("NAME"), table.Right("TOKENS")},
			[][]string{{"東京都千代田区", "123456"}}, 19, []string{"NAME         TOKENS", "東京都千代…  123456"}},
		{"what a server sent cannot move the cursor", []table.Column{table.Left("WHY")},
			[][]string{{"two\nlines\x1b[2J\u009b"}}, 0, []string{"WHY", "two lines␛[2J\ufffd"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tab := table.New(tt.columns...)
			for _, row := range tt.rows {
				tab.Row(row...)
			}
			var b strings.Builder
			if err := tab.Write(&b, tt.width); err != nil {
				t.Fatal(err)
			}
			if want := strings.Join(tt.want, "\n") + "\n"; b.String() != want {
				t.Errorf("got\n%swant\n%s", b.String(), want)
			}
		})
	}
}

// No table is wider than asked for.
func FuzzWidth(f *testing.F) {
	f.Add("name", "12", "a long reason that goes on", 40)
	f.Add("\x1b[31m", "", "\xff\xfe", 25)
	f.Add("name", "123456789012345678901234567890", "because", 40)
	f.Fuzz(func(t *testing.T, a, n, c string, width int) {
		if width < 10 || width > 200 {
			t.Skip("no terminal")
		}
		tab := table.New(table.Left("A"), table.Right("N"), table.Left("C"))
		tab.Row(a, n, c)
		var b strings.Builder
		if err := tab.Write(&b, width); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		if len(lines) != 2 && !(len(lines) == 3 && strings.HasPrefix(lines[2], "(no room")) {
			t.Fatalf("%d lines for a heading, a row and what is left out: %q", len(lines), b.String())
		}
		for _, line := range lines {
			if got := len([]rune(line)); got > width {
				t.Errorf("%d wide, want at most %d: %q", got, width, line)
			}
		}
	})
}
