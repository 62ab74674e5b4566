package diplomacyview

import (
	_ "embed"
	"strings"
)

// rules is the style of a map with its colours as names, which colours fills in: CSS variables would do, but few
// programs other than browsers know them, and these draw all in black.
//
//go:embed style.css
var rules string

// colours is the names in rules, one a line: what each stands for by day and by night. Those from --p0 on are the
// powers'.
//
//go:embed colours.txt
var colours string

// style is the whole sheet: as by day wherever nothing more is understood, and as by night where that is asked for.
var style = func() string {
	var day, night []string
	for line := range strings.Lines(colours) {
		c := strings.Fields(line)
		day, night = append(day, "var("+c[0]+")", c[1]), append(night, "var("+c[0]+")", c[2])
	}
	return strings.NewReplacer(day...).Replace(rules) +
		"@media (prefers-color-scheme:dark) {\n" + strings.NewReplacer(night...).Replace(rules) + "}\n"
}()
