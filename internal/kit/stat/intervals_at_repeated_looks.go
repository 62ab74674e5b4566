package stat

import "math"

// pocock is, by the number of looks but one, the deviations that every look may be off, so that all of them hold with
// 95 %: Pocock, Biometrika 64 (1977); Jennison and Turnbull, Group Sequential Methods (2000), table 2.1.
var pocock = [...]float64{1.960, 2.178, 2.289, 2.361, 2.413, 2.453, 2.485, 2.512}

// MostLooks is as many as RepeatedConfidence knows of.
const MostLooks = len(pocock)

// RepeatedConfidence is with which confidence to make an interval at each of so many looks at a growing sample, with
// equally many values more each time, for all of them together to hold the mean with 95 %: one may then stop at any
// look, for whatever reason. An interval of a difference that excludes 0 at any look is so a test with 5 % error.
func RepeatedConfidence(looks int) float64 {
	return math.Erf(pocock[min(max(looks, 1), MostLooks)-1] / math.Sqrt2)
}
