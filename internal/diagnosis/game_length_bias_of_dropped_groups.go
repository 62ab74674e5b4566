package diagnosis

import (
	"fmt"
	"math"
	"slices"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

const (
	// enoughGroups is how many groups a comparison of lengths needs on either side.
	enoughGroups = 20
	// farApart is the least difference of mean lengths that is worth a word, in doublings: a quarter longer.
	farApart = 0.32
	// beyondChance is how many standard errors a difference must be away from none.
	beyondChance = 3
)

// Bias is groups that left for one reason having had longer or shorter games than those trained on.
type Bias struct {
	Code          rollout.Code `json:"code"`
	Groups        int64        `json:"groups"`         // that were played at all, and left for this reason
	Phases        float64      `json:"phases"`         // mean length of their games, as closely as the buckets tell
	TrainedPhases float64      `json:"trained_phases"` // and of those trained on
}

// Biases compares the lengths of dropped groups with those of trained ones, for each reason with enough groups. An
// abandoned game counts as far as it came, so its true length may be longer, but not shorter. So "longer" is reported
// for every reason, and "shorter" only if all games were played to their end.
func Biases(departures []steprecord.LengthCount) []Bias {
	biases := []Bias{}
	at := slices.IndexFunc(departures, func(d steprecord.LengthCount) bool { return d.Code == steprecord.Trained })
	if at < 0 {
		return biases
	}
	trained := lengthsOf(departures[at])
	for _, d := range departures {
		lost := lengthsOf(d)
		if d.Code == steprecord.Trained || trained.groups < enoughGroups || lost.groups < enoughGroups {
			continue
		}
		apart := lost.mean - trained.mean
		chance := math.Sqrt(lost.variance/lost.groups + trained.variance/trained.groups)
		if math.Abs(apart) < farApart || math.Abs(apart) < beyondChance*chance || apart < 0 &&
			d.Code != rollout.CodeZeroVariance {
			continue
		}
		biases = append(biases, Bias{d.Code, int64(lost.groups), lost.phases, trained.phases})
	}
	return biases
}

// String is the bias in a sentence.
func (b Bias) String() string {
	how, leans := "longer", "short"
	if b.Phases < b.TrainedPhases {
		how, leans = "shorter", "long"
	}
	return fmt.Sprintf("groups dropped as %s have %s games than those trained on, about %s phases against %s: "+
		"what is learnt from leans towards %s games",
		b.Code, how, units.Number(b.Phases), units.Number(b.TrainedPhases), leans)
}

// lengths is the lengths of some groups' games. Mean and variance are of the bucket: of the length's logarithm.
type lengths struct {
	groups, mean, variance float64
	phases                 float64
}

// lengthsOf leaves out groups that were never played.
func lengthsOf(d steprecord.LengthCount) lengths {
	var l lengths
	squares := 0.0
	for bucket, n := range d.ByLength {
		if bucket == 0 {
			continue
		}
		from, to := steprecord.LengthBucket(bucket)
		groups, middle := float64(n), float64(bucket)
		l.groups += groups
		l.mean += groups * middle
		squares += groups * middle * middle
		l.phases += groups * float64(from+to) / 2
	}
	if l.groups == 0 {
		return l
	}
	l.mean /= l.groups
	l.phases /= l.groups
	l.variance = max(0, squares/l.groups-l.mean*l.mean)
	return l
}
