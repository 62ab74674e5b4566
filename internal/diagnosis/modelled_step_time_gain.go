package diagnosis

// counterfactualGain is by how much a step would be shorter, by the model, if a batch took the fleet only
// productionSec.
func (reg *regime) counterfactualGain(productionSec float64) float64 {
	if reg.P == nil || reg.LatencyPD == nil {
		return 0
	}
	rest := max(reg.C.Sec, reg.LatencyPD.Sec)
	return max(0, max(rest, reg.P.Sec)-max(rest, productionSec))
}

// counterfactualDepthGain is by how much a step would be shorter, by the model, if so many batches were outstanding.
func (reg *regime) counterfactualDepthGain(depth int) float64 {
	if reg.R == nil || reg.P == nil {
		return 0
	}
	rest := max(reg.C.Sec, reg.P.Sec)
	return max(0, max(rest, reg.LatencyPD.Sec)-max(rest, reg.R.Sec/float64(depth)))
}
