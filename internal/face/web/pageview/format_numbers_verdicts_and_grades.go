package pageview

import (
	"fmt"
	"math"
	"strconv"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/kit/units"
)

// Rate is tokens per second: "4,630 tok/s".
func Rate(perSec float64) string { return Count(int64(math.Round(perSec))) + " tok/s" }

// Count is a whole number with commas: "1,234,567".
func Count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// SignedPercent is a share as a change: "+10 %".
func SignedPercent(share float64) string { return fmt.Sprintf("%+.0f %%", math.Round(100*share)+0) }

// Graded is how grave a share is that should be small: it is worth a look, and never red, which alarms are.
func Graded(share float64) tablerow.Grade {
	if share >= 0.05 {
		return tablerow.Warn
	}
	return tablerow.Plain
}

// VerdictWord is a report's verdict as a page says it in a cell, and its colour: red is for what does not go on.
func VerdictWord(r *diagnosis.Report) (word, class string) {
	switch {
	case r.Verdict == diagnosis.VerdictNoAnswer:
		return "not enough evidence", ""
	case r.Severity == diagnosis.SeverityStuck:
		return r.Brief, "bad"
	case r.Severity == diagnosis.SeveritySlow:
		return r.Brief, "warn"
	case r.Severity == diagnosis.SeverityNote:
		return r.Brief, ""
	}
	return "healthy", "good"
}

// plural is "1 step", "2 steps".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return Count(int64(n)) + " " + what + "s"
}

// Known is seconds, or nothing where they are not known.
func Known(sec float64) string {
	if sec <= 0 {
		return ""
	}
	return units.Seconds(sec)
}

// Than is how much more one time is than another, or nothing where one is not known.
func Than(sec, now float64) string {
	if sec <= 0 || now <= 0 {
		return ""
	}
	return SignedPercent(sec/now - 1)
}

// OutcomeClass is how good what would come of a change is.
func OutcomeClass(o diagnosis.Outcome) tablerow.Grade {
	switch o {
	case diagnosis.Helps:
		return tablerow.Good
	case diagnosis.Worse:
		return tablerow.Bad
	case diagnosis.HelpsNot, diagnosis.MayHelp:
	}
	return tablerow.Plain
}
