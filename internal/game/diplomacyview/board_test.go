package diplomacyview

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/game/diplomacy"
	"github.com/millrace/millrace/internal/game/diplomacyenv/bot"
)

// pond is a board of three powers that the tests wrote.
func pond(t *testing.T) *diplomacy.Map {
	t.Helper()
	data, err := os.ReadFile("testdata/pond.json")
	if err != nil {
		t.Fatal(err)
	}
	m, err := diplomacy.LoadMap(data)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A game on another board is played, and shown without knowing the board just as with it; only its maps cannot be
// drawn, which is said.
func TestAnotherBoard(t *testing.T) {
	t.Parallel()
	m := pond(t)
	for _, name := range bot.Names() {
		game, err := Play(PlayOptions{Map: m, Bot: name, Seed: 3, Years: 12})
		if err != nil {
			t.Fatal(err)
		}
		var shown strings.Builder
		if err := Show(&shown, game, ShowOptions{}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, want := sortedLines(shown.String()), sortedLines(shownOn(t, m, game)); got != want {
			t.Errorf("%s: shown without the board:\n%s\nwith it:\n%s", name, got, want)
		}
		_, err = SVGs(t.TempDir(), "", game)
		if err == nil || !strings.Contains(err.Error(), "pond") || !strings.Contains(err.Error(), "standard board only") {
			t.Errorf("%s: maps: %v", name, err)
		}
	}
}

func shownOn(t *testing.T, m *diplomacy.Map, game *diplomacy.SavedGame) string {
	t.Helper()
	table := newTable(m.Powers(), 0, false)
	for i := range game.Phases {
		p, lines, err := readLines(m, m.Powers(), &game.Phases[i])
		if err != nil {
			t.Fatal(err)
		}
		table.phase(p, lines)
	}
	if err := table.centers(m.Powers(), game); err != nil {
		t.Fatal(err)
	}
	return table.b.String()
}

// sortedLines leaves out the order of powers within a phase and of units within a line, which only the board knows.
func sortedLines(text string) string {
	var blocks []string
	for block := range strings.SplitSeq(text, "\n\n") {
		lines := strings.Split(block, "\n")
		for i, l := range lines {
			words := strings.Fields(l)
			slices.Sort(words)
			lines[i] = strings.Join(words, " ")
		}
		slices.Sort(lines)
		blocks = append(blocks, strings.Join(lines, "\n"))
	}
	return strings.Join(blocks, "\n\n")
}
