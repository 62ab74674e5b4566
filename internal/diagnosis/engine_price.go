package diagnosis

// Price says what a step costs, now and with each of the changes, at so many $ per engine and hour.
func (r *Report) Price(perEngineHour float64) {
	if n := len(r.Levels); n > 0 {
		r.StepCost = perEngineHour * r.Levels[n-1].Engines * r.Regime.StepSec / 3600
	}
	if r.StepCost == 0 && perEngineHour > 0 {
		r.Notes = append(r.Notes, "no step has a price: the records do not say how many engines there were")
	}
	for i := range r.WhatIfs {
		w := &r.WhatIfs[i]
		w.StepCost = perEngineHour * w.Engines * w.StepSec / 3600
	}
}

// Priced reports whether steps have a price.
func (r *Report) Priced() bool { return r.StepCost > 0 }
