package diagnosis

import (
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// latencyOf is how long the slowest group of a step's batch took, without queueing.
func latencyOf(s *step) float64 {
	slowest := 0.0
	groups := s.view().Groups
	for i := range groups {
		slowest = max(slowest, unqueuedSec(&groups[i]))
	}
	return slowest
}

// startGap is how long a group stands launched but not started.
func (m *measurements) startGap() float64 {
	return m.mean(m.present, batchMean(func(g *steprecord.GroupView) float64 {
		return max(0, secondsBetween(g.Times.LaunchedAt, g.Times.StartedAt))
	}))
}

// unqueuedSec is from a group's first request until it is ready, without its slowest game's time in the dispatch queue.
func unqueuedSec(g *steprecord.GroupView) float64 {
	sec := secondsBetween(g.Times.StartedAt, g.Times.ReadyAt)
	if i := slowestEpisode(g); i >= 0 {
		sec -= g.EpisodeSec[i] - g.UnqueuedSec(i)
	}
	return max(0, sec)
}

// slowestEpisode is the position of a group's longest episode; -1: none is recorded.
func slowestEpisode(g *steprecord.GroupView) int {
	longest := -1
	for i, sec := range g.EpisodeSec {
		if longest < 0 || sec > g.EpisodeSec[longest] {
			longest = i
		}
	}
	return longest
}
