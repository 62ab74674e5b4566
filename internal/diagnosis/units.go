package diagnosis

import (
	"fmt"
	"math"
	"strconv"
)

// seconds writes a duration with three digits or so: "0.42 s", "8.3 s", "150 s".
func seconds(sec float64) string { return number(sec) + " s" }

// signed is seconds with its sign: "+150 s".
func signed(sec float64) string {
	if number(sec) == "0" {
		return "0 s"
	}
	if sec > 0 {
		return "+" + seconds(sec)
	}
	return seconds(sec)
}

// number writes about three significant digits, and none that mean nothing.
func number(v float64) string {
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

// percent writes a share in whole percent, and never "-0 %".
func percent(share float64) string { return fmt.Sprintf("%.0f %%", math.Round(100*share)+0) }
