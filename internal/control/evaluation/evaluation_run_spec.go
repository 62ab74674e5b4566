// Package evaluation makes the run that tells how good a version of another run is, and puts together what such runs
// have told. Start reading at Spec.
package evaluation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/game/environments"
	"github.com/millrace/millrace/internal/game/specfile"
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// Asked is which evaluation somebody wants.
type Asked struct {
	Version rollout.PolicyVersion `json:"version" minimum:"0" doc:"Of the run's policy; 0 is what it began with"`
	Path    string                `json:"path,omitempty" doc:"The version's adapter, where the run does not know it any more"`
	Against string                `json:"against,omitempty" doc:"Who plays the others: a bot, v3 for version 3, policy:NAME of the run's policies"`
	// The policy against which it is, where the run has none of that name: a model elsewhere.
	URL       string  `json:"url,omitempty" doc:"Base of the chat API of policy:NAME, where the run has no such policy"`
	Model     string  `json:"model,omitempty" doc:"What that API calls the model"`
	MaxTokens int     `json:"max_tokens,omitempty" minimum:"0" maximum:"131072" doc:"Length of its answers; 0: the run's"`
	Seat      string  `json:"seat,omitempty" doc:"Which agent the version plays; those that learn, if not given"`
	Games     int     `json:"games" minimum:"1" maximum:"12000" doc:"At most so many, each from a start of its own"`
	HalfWidth float64 `json:"half_width,omitempty" minimum:"0" doc:"Stop as soon as the mean reward is known to so much, with 95 % confidence over all looks"`
}

// MostGames is how many games one may ask for.
const MostGames = 12000

// looks is how many steps an evaluation has at most, after each of which may be enough; the constants of intervals that
// hold at all of them are known for no more.
const looks = stat.MostLooks

// gameLasts is far beyond any game: one that goes behind may wait for hours.
const gameLasts = 24 * time.Hour

// Spec is the run that plays what is asked for. All versions meet an opponent in a seat from the same starts: the seed
// follows from these two. The same question is the same run. Refusals: Invalid.
func Spec(of runstatus.RunStatus, asked Asked) (runspec.Spec, error) {
	run := of.Spec
	if !run.Environment.Played() || run.Evaluation.Run != "" {
		return runspec.Spec{}, rollout.Refuse(rollout.Invalid, "run %s plays no games that a version could be told by",
			run.Name.Plain())
	}
	asked.Seat = strings.ToUpper(asked.Seat) // as environments call them
	initial, err := adapterOf(of, asked.Version, asked.Path)
	if err != nil {
		return runspec.Spec{}, err
	}
	opponent := environments.EvaluationOpponent(asked.Against)
	policies, err := opponents(of, asked, opponent)
	if err != nil {
		return runspec.Spec{}, err
	}
	env, err := environments.Against(run.Environment, opponent, asked.Seat)
	if err != nil {
		return runspec.Spec{}, rollout.Refuse(rollout.Invalid, "%v", err)
	}
	if asked.Games < 1 {
		return runspec.Spec{}, rollout.Refuse(rollout.Invalid, "games: %d; ask for one at least", asked.Games)
	}
	each := (asked.Games + looks - 1) / looks
	spec := runspec.Spec{
		Name: Name(run.Name, asked), Model: run.Model, Steps: (asked.Games + each - 1) / each,
		Seed: seed(asked.Against + "/" + asked.Seat), Environment: env, Policies: policies, Sampling: run.Sampling,
		Group: runspec.GroupSpec{Samples: 1, MinSamples: 1},
		Buffer: runspec.BufferSpec{Depth: 1, GroupsPerStep: each, OnStale: runspec.KeepStale,
			Prefill: runspec.PrefillBatch}, // a step's games are played together, so that none is left out for its length
		Adapters: run.Adapters,
		Dispatch: runspec.Dispatch{Policy: run.Dispatch.Policy, AdapterSlots: run.Dispatch.AdapterSlots, Behind: true},
		Timeouts: run.Timeouts,
		Evaluation: runspec.Evaluation{Run: run.Name, Version: asked.Version, Against: asked.Against,
			Seat: asked.Seat, HalfWidth: asked.HalfWidth},
	}
	spec.Adapters.Initial, spec.Adapters.Probes = initial, ""
	spec.Timeouts.Episode = rollout.Duration(gameLasts)
	text, err := json.Marshal(spec)
	if err != nil {
		return runspec.Spec{}, err
	}
	read, err := specfile.Read("evaluation", text)
	if err != nil {
		return runspec.Spec{}, rollout.Refuse(rollout.Invalid, "%v", err)
	}
	return read.Spec, nil
}

// opponents is the fixed policies that take part: the one that is asked for, or else the run's, which may be judges.
func opponents(of runstatus.RunStatus, asked Asked, opponent string) ([]runspec.FixedPolicy, error) {
	run := of.Spec
	name, isPolicy := strings.CutPrefix(opponent, rollout.PlayedByPolicy)
	at := slices.IndexFunc(run.Policies, func(p runspec.FixedPolicy) bool { return p.Name == name })
	v, isVersion := rollout.VersionOfPlayer(asked.Against)
	given := asked.URL != "" || asked.Model != ""
	switch {
	case given && (!isPolicy || isVersion):
		return nil, rollout.Refuse(rollout.Invalid, "url: it is of a model elsewhere; name that, as in against: policy:gpt")
	case given && at >= 0:
		return nil, rollout.Refuse(rollout.Invalid, "url: run %s has a policy %s of its own; name this one otherwise",
			run.Name.Plain(), name)
	case given:
		return []runspec.FixedPolicy{{Name: name, URL: asked.URL, Model: asked.Model, MaxTokens: asked.MaxTokens}}, nil
	case isVersion:
		path, err := adapterOf(of, v, "")
		return []runspec.FixedPolicy{{Name: asked.Against, Path: path}}, err
	case isPolicy && at < 0:
		return nil, rollout.Refuse(rollout.Invalid, "against: policy:%s is not among the policies of run %s; of a model "+
			"elsewhere, say where it is: url and model", name, run.Name.Plain())
	case isPolicy:
		return run.Policies[at : at+1], nil
	case opponent == runspec.LeagueOpponent:
		return nil, rollout.Refuse(rollout.Invalid, "against: %s is drawn anew for each group; name one opponent: a bot, v3 "+
			"for version 3, or policy:NAME, of the run's policies", opponent)
	}
	return run.Policies, nil
}

// endedLately is how long after a run's end its last version may still be asked for.
const endedLately = time.Hour

// Due is which evaluations a run's spec wants now: of the newest version that is to be evaluated and, of a run that has
// completed lately, of its last one.
func Due(of runstatus.RunStatus, now time.Time) (all []Asked) {
	e, version := of.Spec.Evaluate, of.PolicyVersion
	switch {
	case e.Every <= 0:
		return nil
	case of.State == runstatus.RunRunning:
		version -= version % rollout.PolicyVersion(e.Every)
	case of.State != runstatus.RunCompleted || now.Sub(of.EndedAt) >= endedLately:
		return nil
	}
	for _, against := range e.Opponents() {
		all = append(all, Asked{Version: version, Against: against, Seat: e.Seat,
			Games: cmp.Or(e.Games, runspec.DefaultEvaluationGames), HalfWidth: e.HalfWidth})
	}
	return all
}

// adapterOf is where the weights of a version are; empty: it is the base model.
func adapterOf(of runstatus.RunStatus, v rollout.PolicyVersion, given string) (string, error) {
	switch {
	case given != "":
		return given, nil
	case v == 0:
		return of.Spec.Adapters.Initial, nil
	case v > of.PolicyVersion:
		return "", rollout.Refuse(rollout.Invalid, "version %d of run %s was never published; the newest is %d", v,
			of.Spec.Name.Plain(), of.PolicyVersion)
	}
	for _, p := range of.Policies {
		if p.Version == v && p.Path != "" && p.State != runstatus.PolicyRejected {
			return p.Path, nil
		}
	}
	return "", rollout.Refuse(rollout.Invalid, "run %s does not know any more where version %d lies, or it was rejected; "+
		"if its files are kept, say where: path (--path)", of.Spec.Name.Plain(), v)
}

// beginning is what the names of all evaluations of a run begin with. Of a name that came back each run has its own.
func beginning(of rollout.RunName) string {
	name := string(of.Plain())
	if life := of.Life(); life > 1 {
		name = fmt.Sprintf("%s-life%d", name, life)
	}
	return short(name, name, longestBeginning) + "-eval-v"
}

const (
	longestBeginning = 32 // leaves room for version, opponent and seat
	longestName      = 63
)

// short is a text that is no longer than a bound; if it has to be cut, it ends with a hash of what it stands for.
func short(text, standsFor string, bound int) string {
	if len(text) <= bound {
		return text
	}
	mark := hashOf(standsFor)
	return strings.TrimRight(text[:bound-len(mark)-1], "._-") + "-" + mark
}

// hashOf is eight letters and digits that tell texts apart.
func hashOf(text string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text))
	return fmt.Sprintf("%08x", h.Sum32())
}

// Named reports whether a run has the name of an evaluation of another run.
func Named(name, of rollout.RunName) bool { return strings.HasPrefix(string(name), beginning(of)) }

// asItIs matches opponents that no other has a name in common with when ":" becomes "-".
var (
	asItIs     = regexp.MustCompile(`^(policy:)?[a-z0-9]*$`)
	notInNames = regexp.MustCompile(`[^a-z0-9]+`)
)

// Name is the name of what is asked for: RUN-eval-v12-OPPONENT-SEAT, with a hash where that would be too long or
// another's.
func Name(of rollout.RunName, asked Asked) rollout.RunName {
	n, seat := fmt.Sprint(beginning(of), int64(asked.Version)), strings.ToUpper(asked.Seat)
	for _, part := range []string{asked.Against, seat} {
		if part != "" {
			n += "-" + strings.Trim(notInNames.ReplaceAllString(strings.ToLower(part), "-"), "-")
		}
	}
	whom := asked.Against + "/" + seat
	if !asItIs.MatchString(asked.Against) {
		n += "-" + hashOf(whom)
	}
	return rollout.RunName(short(n, n+whom, longestName))
}

// seed is one that every reader of numbers keeps.
func seed(of string) int64 {
	const bits = 52
	h := fnv.New64a()
	_, _ = h.Write([]byte(of))
	return int64(stat.Mix(h.Sum64()) >> (64 - bits))
}
