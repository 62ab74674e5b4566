package diagnosis

import "slices"

// unlike is how many times as fast as another an engine is that is not like it.
const unlike = 1.5

// unevenEngines reports whether engines may differ, or stand still at times: some are slower than others by their own
// rows; loads of adapters may stop them; or requests became slower, and no rows show that it is all engines alike.
func unevenEngines(m *measurements, reg *regime) bool {
	if loadSecPerStep(m) >= minWaitShare*reg.StepSec {
		return true
	}
	if m.fleet.engines < 1+moved {
		return false
	}
	speeds := engineSpeeds(m, m.present)
	if len(speeds) < 2 {
		return reg.speed.slowed
	}
	var all []float64
	for _, sec := range speeds {
		all = append(all, sec)
	}
	return slices.Max(all) > unlike*slices.Min(all)
}
