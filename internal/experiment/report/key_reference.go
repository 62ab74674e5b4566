package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/millrace/millrace/internal/experiment"
)

// ReferenceName is the name of the page's last section, which SectionOf finds.
const ReferenceName = "reference"

// WriteReference writes the page's last section: how a file is written, its keys, and the metrics.
func WriteReference(w io.Writer) error {
	var b strings.Builder
	b.WriteString(beginOf(ReferenceName))
	b.WriteString(`## A file of your own

` + "`millrace experiment run FILE.yaml`" + ` reads a file like those in config/experiments, strictly. Every
combination of the points of a part's axes is a cell. A claim's check compares metrics of cells,
PART(AXIS=POINT, ...).METRIC, with < <= > >=, near(a, b, share), min, max, abs, + - * /, and, or, not. A comparison is
decided by the 95 % interval of the difference, seed by seed: it holds if all of the interval says so, does not hold if
none of it does, and else it cannot be decided. Traces, setups and hardware profiles are those that come with the
program, or files beside yours.

### Keys

| key | default | what it is |
|---|---|---|
`)
	defaults := experiment.Default()
	for _, key := range experiment.Table().Keys {
		standard := ""
		if key.Default != nil {
			standard = fmt.Sprint(key.Default)
			if v := key.Of(&defaults); v.IsValid() {
				standard = key.Text(&defaults)
			}
		}
		doc := key.Doc
		if len(key.OneOf) > 0 {
			doc += " (" + strings.Trim(strings.Join(key.OneOf, ", "), ", ") + ")"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", key.Path, standard, cell(doc))
	}
	b.WriteString("\n### Metrics\n\nTimes are in seconds, shares of 1 in checks and in percent in tables. " +
		"Of a pipeline there are also step_K, the\nlength of step K, and ready_K, the ready batches when it was " +
		"claimed.\n\n| metric | what it is |\n|---|---|\n")
	for _, m := range experiment.Metrics() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", m.Name, cell(m.Doc))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
