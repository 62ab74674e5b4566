package reporttext

import (
	"fmt"
	"io"
	"slices"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/kit/units"
)

const (
	// spansShown and groupsShown bound the text of a step; the JSON document has all.
	spansShown  = 40
	groupsShown = 12
)

// WriteStep writes one step second by second.
func WriteStep(w io.Writer, s diagnosis.StepTimeline) error {
	p := &page{}
	p.line("%s  step %d, first claimed at %s", s.Run, s.Step, s.AskedAt.UTC().Format("2006-01-02 15:04:05"))
	p.wrapped("", s.Summary)
	p.line("")
	t := table.New(table.Right(""), table.Right(""), table.Right(""), table.Left("")) // headings as a row: it is folded
	t.Row("from", "to", "seconds", "what (measured)")
	shown := slices.DeleteFunc(slices.Clone(s.Spans), func(one diagnosis.Span) bool {
		return one.ToSec-one.FromSec < leastShown*s.StepSec
	})
	for i, one := range shown {
		if i == spansShown {
			t.Row("", "", "", fmt.Sprintf("... %d more; -o json has all", len(shown)-i))
			break
		}
		t.Row(units.Seconds(one.FromSec), units.Seconds(one.ToSec), units.Seconds(one.ToSec-one.FromSec), one.Text)
	}
	p.folded(t)
	p.groups(s.Groups)
	p.list("Note", s.Notes)
	p.list("Next", s.Next)
	_, err := w.Write(p.Bytes())
	return err
}

// groups writes the groups that were ready last.
func (p *page) groups(groups []diagnosis.GroupWait) {
	if len(groups) == 0 {
		return
	}
	shown := slices.Clone(groups[max(0, len(groups)-groupsShown):])
	slices.Reverse(shown)
	t := table.New(table.Right(""), table.Right(""), table.Right(""), table.Right(""), table.Right(""), table.Left(""))
	t.Row("group", "launched", "started", "ready", "longest game", "while the trainer waited, until it was ready")
	for _, g := range shown {
		var text string
		for _, part := range g.Wait {
			if part.Sec < 0.05 || part.Place == diagnosis.PlaceHandover { // from then on it waited for the others
				continue
			}
			if text != "" {
				text += ", "
			}
			text += units.Seconds(part.Sec) + " " + diagnosis.PlaceText(part.Place)
		}
		t.Row(fmt.Sprint(g.Seq), units.SignedSeconds(g.LaunchSec), units.SignedSeconds(g.StartSec),
			units.SignedSeconds(g.ReadySec), units.Seconds(g.LongestSec), text)
	}
	p.line("")
	p.line("The groups that were ready last, of %d; times since the first claim of the step.", len(groups))
	p.folded(t)
}
