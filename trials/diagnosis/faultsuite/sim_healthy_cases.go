package faultsuite

import "fmt"

// simHealthy is runs with nothing to find, of all kinds and lengths, with more noise than most have.
func simHealthy() []Case {
	var cases []Case
	for _, base := range []struct {
		name string
		of   func(int) simRun
	}{{"slots", slots}, {"filled", filled}, {"long", long}, {"places", places}} {
		for _, depth := range []int{2, 3, 5} {
			for _, steps := range []int{8, 16, 36, 90} {
				cases = append(cases, simCase(fmt.Sprintf("healthy-%s-%d-%d", base.name, depth, steps),
					"nothing; every phase varies by 10 %, each like the one before", func(n int) simRun {
						return base.of(n).depth(depth).until(steps).noisy(0.1, 0.5, steps)
					}))
			}
		}
	}
	return cases
}
