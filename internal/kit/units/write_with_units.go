// Package units writes durations, sizes and shares with their units, in about three digits, and the first of many
// names: what a person compares. Start reading at Number.
package units

import (
	"fmt"
	"math"
	"strconv"
)

// Seconds writes a duration: "0.42 s", "8.3 s", "150 s".
func Seconds(sec float64) string { return Number(sec) + " s" }

// SignedSeconds is Seconds with a sign: "+150 s".
func SignedSeconds(sec float64) string {
	if Number(sec) == "0" {
		return "0 s"
	}
	if sec > 0 {
		return "+" + Seconds(sec)
	}
	return Seconds(sec)
}

// Number writes about three significant digits, and none that mean nothing.
func Number(v float64) string {
	switch abs := math.Abs(v); {
	case abs < 0.005:
		return "0"
	case abs < 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case abs < 100:
		s := strconv.FormatFloat(v, 'f', 1, 64)
		if s[len(s)-2:] == ".0" {
			return s[:len(s)-2]
		}
		return s
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// Percent writes a share of 1 in whole percent, and never "-0 %".
func Percent(share float64) string { return fmt.Sprintf("%.0f %%", math.Round(100*share)+0) }

// Share is a part of a whole; 0 if the whole is 0.
func Share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}

// Bytes writes a size in the unit that leaves few digits: "40 KiB", "1.9 GiB".
func Bytes(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	v, at := float64(n), 0
	for v >= 1000 && at < len(units)-1 {
		v, at = v/1024, at+1
	}
	if at == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%s %s", Number(v), units[at])
}
