package crashtest

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// opponents looks for games in which another version played than the league drew: each game of a group, in each of its
// attempts, is against the same older version, or in none against any.
func (f *findings) opponents(o outcome) {
	if o.plan.cfg.Shape != League {
		return
	}
	drawn := map[int64][]string{}
	for _, batch := range o.batches {
		for _, id := range batch.trajectories {
			seq, game, ok := gameOf(id)
			if !ok {
				continue // is complained of elsewhere
			}
			learner := -1
			for _, g := range o.generated(game + "/X") {
				learner = versionOf(g.model)
			}
			for _, g := range o.generated(game + "/O") {
				if !slices.Contains(drawn[seq], g.model) {
					drawn[seq] = append(drawn[seq], g.model)
				}
				if v := versionOf(g.model); v >= learner && learner > 0 {
					f.complain("game %s: version %d, which was not older, played against version %d", game, v, learner)
				}
			}
		}
	}
	for seq, models := range drawn {
		if len(models) > 1 {
			f.complain("group %d was played against %s, and the league draws one opponent", seq, strings.Join(models, ", "))
		}
	}
}

var adapterVersion = regexp.MustCompile(`-v([0-9]+)$`)

// versionOf is the version that a model of engines is; the base model is version 0.
func versionOf(model string) int {
	found := adapterVersion.FindStringSubmatch(model)
	if found == nil {
		return 0
	}
	v, _ := strconv.Atoi(found[1]) // digits
	return v
}
