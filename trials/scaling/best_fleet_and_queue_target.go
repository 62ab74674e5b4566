package trial

// Near is by how much a total time may exceed the shortest to be as good, as for a plan.
const Near = 0.02

// Fastest is the largest fixed fleet: more engines never make a run longer, apart from chance.
func (c *Comparison) Fastest() Summary { return c.Fixed[Most] }

// Best is the smallest fixed fleet that is as fast as the largest.
func (c *Comparison) Best() Summary {
	for engines := 1; engines < Most; engines++ {
		if s, played := c.Fixed[engines]; played && s.Sec <= c.Fastest().Sec*(1+Near) {
			return s
		}
	}
	return c.Fastest()
}

// BestQueue is the queue policy with the target that is best for this workload: of those that are as fast as the
// fastest of them, the one with the fewest engine-hours.
func (s *Scaled) BestQueue() Summary {
	fastest := s.Queue[Targets[0]]
	for _, target := range Targets {
		if one := s.Queue[target]; one.Sec < fastest.Sec {
			fastest = one
		}
	}
	best := fastest
	for _, target := range Targets {
		if one := s.Queue[target]; one.Sec <= fastest.Sec*(1+Near) && one.Hours < best.Hours {
			best = one
		}
	}
	return best
}
