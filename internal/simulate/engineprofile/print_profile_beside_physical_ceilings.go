package engineprofile

import (
	"fmt"
	"io"

	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
)

// WriteCeilings writes what a profile's GPU allows at most, and how near the profile comes to it; nothing if the
// profile names no GPU.
func WriteCeilings(w io.Writer, p *enginemodel.Profile) error {
	if len(p.Ceilings()) == 0 {
		return nil
	}
	t := table.New(table.Left("AGAINST "+p.GPU.Name), table.Right("PROFILE"), table.Right("BOUND"), table.Left(""))
	for _, c := range p.Ceilings() {
		kind := "at most"
		if c.AtLeast {
			kind = "at least"
		}
		verdict := ""
		if c.Broken() {
			verdict = "IMPOSSIBLE"
		}
		t.Row(c.What, fmt.Sprintf("%.4g %s", c.Profile, c.Unit), fmt.Sprintf("%s %.4g", kind, c.Bound), verdict)
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return t.Write(w, 0)
}
