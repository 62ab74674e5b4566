package rollout

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// RunName names a training run; it is chosen by the user and unique in the service.
type RunName string

// runNamePattern keeps names usable as workflow ids, Redis keys, adapter names and URL segments.
var runNamePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)

// Validate reports why n cannot name a run.
func (n RunName) Validate() error {
	if !runNamePattern.MatchString(string(n)) {
		return fmt.Errorf("run name %q: use 1 to 63 of a-z 0-9 . _ -, starting and ending with a letter or digit", string(n))
	}
	return nil
}

// idPattern is a name, and from the second time on that it is used after a deletion the number of that life.
var idPattern = regexp.MustCompile(`^([^@]+)(?:@([1-9][0-9]{0,8}))?$`)

// ValidateID reports why n is neither a name nor the id of a run, which is NAME or NAME@2 and so on.
func (n RunName) ValidateID() error {
	parts := idPattern.FindStringSubmatch(string(n))
	if parts == nil {
		return n.Validate()
	}
	return RunName(parts[1]).Validate()
}

// Plain is the name that the user chose, of the id of a run.
func (n RunName) Plain() RunName {
	name, _, _ := strings.Cut(string(n), "@")
	return RunName(name)
}

// Life numbers the runs that a name has had, one after the deletion of the other, from 1.
func (n RunName) Life() int {
	_, number, _ := strings.Cut(string(n), "@")
	life, err := strconv.Atoi(number)
	if err != nil {
		return 1
	}
	return life
}

// fleetName is what the keys of the fleet are under, so that it is the id of no run that is begun.
const fleetName RunName = "fleet"

// InLife is the id of the run that a name has in one of its lives. The first one is the name itself.
func (n RunName) InLife(life int) RunName {
	if life == 1 && n != fleetName {
		return n
	}
	return RunName(fmt.Sprintf("%s@%d", n, life))
}

// PolicyVersion counts the weights that the trainer has published: 0 is what the run begins with, the base model or an
// initial adapter.
type PolicyVersion int64

// Adapter is the name under which engines serve version v of run n. A name is never
// reused: engines key their prefix cache by it. Version 0 has no such name: see runspec.Spec.ModelOf.
func (v PolicyVersion) Adapter(n RunName) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%s-v%d", n, v)
}

// Staleness is how many versions the trainer was ahead of the sampler.
func Staleness(sampler, trainer PolicyVersion) int64 { return int64(trainer - sampler) }

// Step numbers the optimizer steps of a run from 0.
type Step int64

// GroupSeq numbers the groups of a run from 0 in the order of their launch.
type GroupSeq int64

// TrainerGeneration numbers the trainer processes of a run; the highest one announced is the only one served.
type TrainerGeneration int64

// EngineID names an engine of the fleet.
type EngineID string

// GroupRef names a group across runs.
type GroupRef struct {
	Run RunName  `json:"run"`
	Seq GroupSeq `json:"seq"`
}

// String is "RUN/12".
func (r GroupRef) String() string { return fmt.Sprintf("%s/%d", r.Run, r.Seq) }

// EpisodeRef names one episode: the sample-th game of a group.
type EpisodeRef struct {
	GroupRef
	Sample int `json:"sample"`
}

// String is "RUN/12/3".
func (r EpisodeRef) String() string { return fmt.Sprintf("%s/%d", r.GroupRef, r.Sample) }

// TrajectoryID is "RUN/12/3/FRANCE".
func (r EpisodeRef) TrajectoryID(agent string) string { return r.String() + "/" + agent }

// ParseEpisodeRef reads "RUN/12/3".
func ParseEpisodeRef(s string) (EpisodeRef, error) {
	parts := strings.Split(s, "/")
	if len(parts) != 3 {
		return EpisodeRef{}, fmt.Errorf("episode %q: want RUN/GROUP/EPISODE, such as demo/12/3", s)
	}
	seq, err1 := strconv.ParseInt(parts[1], 10, 64)
	sample, err2 := strconv.Atoi(parts[2])
	if err1 != nil || err2 != nil || seq < 0 || sample < 0 {
		return EpisodeRef{}, fmt.Errorf("episode %q: group and episode must be whole numbers, such as demo/12/3", s)
	}
	name := RunName(parts[0])
	if err := name.ValidateID(); err != nil {
		return EpisodeRef{}, err
	}
	return EpisodeRef{GroupRef{name, GroupSeq(seq)}, sample}, nil
}
