package tablerow

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Span is a duration in its two largest units.
func Span(d time.Duration) string {
	d = max(0, d)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// Ago is how long since a time; a dash for no time.
func Ago(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return Span(now.Sub(t)) + " ago"
}

// Fine writes a number with as many digits as its error leaves it.
func Fine(v, err float64) string {
	digits := 1
	if err > 0 && err < 10 {
		digits = min(5, max(0, int(math.Ceil(-math.Log10(err)))))
	} else if err >= 10 {
		digits = 0
	}
	return fmt.Sprintf("%.*f", digits, v)
}

// Seconds writes seconds so that a column of them lines up.
func Seconds(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

func whole(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }
