package diplomacyview

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/millrace/millrace/internal/diplomacy"
)

// ErrMismatch is returned when recorded games do not follow from the rules.
var ErrMismatch = errors.New("recorded games differ from the rules")

// ReplayOptions say how games are replayed.
type ReplayOptions struct {
	Map    *diplomacy.Map // nil is the standard board
	Format string         // Table or JSON; empty is Table
}

// ReplaySummary is what Replay reports as JSON.
type ReplaySummary struct {
	Games      int                    `json:"games"`
	Phases     int                    `json:"phases"`
	Mismatches int                    `json:"mismatches"`
	Differing  []diplomacy.GameReport `json:"differing"` // the games with a mismatch
}

// Replay plays recorded games again, one JSON value a line, and reports every phase whose outcome is not the recorded
// one. It returns ErrMismatch, wrapped, if there is any, after everything is written.
func Replay(w io.Writer, r io.Reader, o ReplayOptions) error {
	if err := CheckFormat(o.Format); err != nil {
		return err
	}
	m := board(o.Map)
	adjudicator := diplomacy.NewAdjudicator(m)
	sum := ReplaySummary{Differing: []diplomacy.GameReport{}}
	for rec, err := range diplomacy.ReadRecords(r) {
		if err != nil {
			return err
		}
		if rec.Map != "" && rec.Map != m.Name() {
			return fmt.Errorf("game %s was played on the board %q, not on %q", rec.ID, rec.Map, m.Name())
		}
		report := adjudicator.Replay(rec)
		if len(rec.Phases) == 0 {
			return fmt.Errorf("game %d (%q) has no phases", sum.Games+1, rec.ID)
		}
		sum.Games++
		sum.Phases += report.Phases
		sum.Mismatches += len(report.Mismatches)
		if len(report.Mismatches) > 0 {
			sum.Differing = append(sum.Differing, report)
		}
	}
	if sum.Games == 0 {
		return errors.New("there are no games in it")
	}
	if err := sum.write(w, o.Format); err != nil {
		return err
	}
	if sum.Mismatches > 0 {
		return fmt.Errorf("%w: %s in %s", ErrMismatch, plural(sum.Mismatches, "mismatch"), plural(len(sum.Differing), "game"))
	}
	return nil
}

func (s *ReplaySummary) write(w io.Writer, format string) error {
	if format == JSON {
		return writeJSON(w, s)
	}
	var b strings.Builder
	for _, game := range s.Differing {
		for _, m := range game.Mismatches {
			fmt.Fprintf(&b, "%s %s %s: %s: got %s, recorded %s\n", game.ID, m.Phase, m.What,
				strings.TrimSpace(m.Power+" "+m.Unit), list(m.Got), list(m.Want))
		}
	}
	fmt.Fprintf(&b, "%s, %s, %s\n", plural(s.Games, "game"), plural(s.Phases, "phase"), plural(s.Mismatches, "mismatch"))
	_, err := io.WriteString(w, b.String())
	return err
}

func list(words []string) string {
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, ", ")
}
