package plan

import (
	"fmt"
	"math"
	"strconv"
)

// Dollars writes money: in whole cents, and below a dollar in three digits.
func Dollars(v float64) string {
	switch {
	case v <= 0:
		return "$0"
	case v < 1:
		decimals := 2 - int(math.Floor(math.Log10(v)))
		return "$" + strconv.FormatFloat(v, 'f', min(decimals, 9), 64)
	case v < 1000:
		return fmt.Sprintf("$%.2f", v)
	}
	return fmt.Sprintf("$%.0f", v)
}
