package diagnosis

// Price says what a step costs with each of the changes, at so many $ per engine and hour.
func (r *Report) Price(perEngineHour float64) {
	for i := range r.WhatIfs {
		w := &r.WhatIfs[i]
		w.StepCost = perEngineHour * w.Engines * w.StepSec / 3600
	}
}

// Priced reports whether the changes have a price.
func (r *Report) Priced() bool {
	for _, w := range r.WhatIfs {
		if w.StepCost > 0 {
			return true
		}
	}
	return false
}
