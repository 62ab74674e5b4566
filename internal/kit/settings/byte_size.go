package settings

import (
	"math"
	"strconv"
	"strings"
)

// units are the units of a size, the largest first. Powers of 1000 are left out, because they are easily confused.
var units = []struct {
	name string
	size float64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// sizeOf is bytes that are given in a unit.
func sizeOf(tree any) (int64, bool) {
	text, _ := tree.(string)
	for _, unit := range units {
		if figure, ok := strings.CutSuffix(text, unit.name); ok {
			x, err := strconv.ParseFloat(strings.TrimSpace(figure), 64)
			n := x * unit.size
			return int64(n), err == nil && n >= 0 && n < math.MaxInt64/2
		}
	}
	return 0, false
}
