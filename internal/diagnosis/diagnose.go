package diagnosis

// Diagnose reads the records of a run, in four stages of which each takes values and returns values: what was measured,
// what limits the step time, what a replay predicts of changes, and what caused the slow steps. A report is made of all
// of them. The same input gives the same report.
func Diagnose(in Input) Report {
	in = in.selected()
	h := newHistory(in.Records, pausesOf(&in))
	if len(h.steps) == 0 {
		return withAlarms(reportOfNoStep(in, h), in.Alarms)
	}
	m := measure(in, h)
	reg := regimeOf(&m)
	p := predict(&m, &reg)
	if p.doubted { // nothing is excluded by a model that the record does not bear out
		reg.Kind, reg.Resource = UndecidedRegime, ""
	}
	causes := causesOf(&m, &reg, &p)
	return withAlarms(reportOf(&m, &reg, p, causes), in.Alarms)
}
