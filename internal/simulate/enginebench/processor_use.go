package enginebench

import "runtime/metrics"

// processorUse is the processor time of this process since a moment, as the Go runtime counts it: a core counts as used
// while the process has something to run on it, even if another process is in the way. The count moves on with
// each garbage collection, of which a measurement has many.
type processorUse struct{ idle, total float64 }

func startProcessorUse() processorUse {
	s := []metrics.Sample{{Name: "/cpu/classes/idle:cpu-seconds"}, {Name: "/cpu/classes/total:cpu-seconds"}}
	metrics.Read(s)
	return processorUse{s[0].Value.Float64(), s[1].Value.Float64()}
}

// share is how much of the cores was used since u.
func (u processorUse) share() float64 {
	now := startProcessorUse()
	if now.total <= u.total {
		return 0
	}
	return 1 - (now.idle-u.idle)/(now.total-u.total)
}
