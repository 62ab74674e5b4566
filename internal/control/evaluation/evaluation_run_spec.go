// Package evaluation makes the run that tells how good a version of another run is, and puts together what such runs
// have told. Start reading at Spec.
package evaluation

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"regexp"
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
	Version   rollout.PolicyVersion `json:"version" minimum:"0" doc:"Of the run's policy; 0 is what it began with"`
	Path      string                `json:"path,omitempty" doc:"The version's adapter, where the run does not know it any more"`
	Against   string                `json:"against,omitempty" doc:"Who plays the others: a bot, v3 for version 3, policy:NAME of the run's policies"`
	Seat      string                `json:"seat,omitempty" doc:"Which agent the version plays; those that learn, if not given"`
	Games     int                   `json:"games" minimum:"1" maximum:"12000" doc:"At most so many, each from a start of its own"`
	HalfWidth float64               `json:"half_width,omitempty" minimum:"0" doc:"Stop as soon as the mean reward is known to so much, with 95 % confidence over all looks"`
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
	initial, err := adapterOf(of, asked.Version, asked.Path)
	if err != nil {
		return runspec.Spec{}, err
	}
	policies, opponent := run.Policies, environments.EvaluationOpponent(asked.Against)
	if v, is := rollout.VersionOfPlayer(asked.Against); is {
		path, err := adapterOf(of, v, "")
		if err != nil {
			return runspec.Spec{}, err
		}
		policies = []runspec.FixedPolicy{{Name: asked.Against, Path: path}}
	} else if name, is := strings.CutPrefix(opponent, rollout.PlayedByPolicy); is {
		policies = nil
		for _, p := range run.Policies {
			if p.Name == name {
				policies = append(policies, p)
			}
		}
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
			HalfWidth: asked.HalfWidth},
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

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// beginning is what the names of all evaluations of a run begin with. Of a name that came back each run has its own.
func beginning(of rollout.RunName) string {
	if life := of.Life(); life > 1 {
		return fmt.Sprintf("%s-life%d-eval-v", of.Plain(), life)
	}
	return string(of.Plain()) + "-eval-v"
}

// Named reports whether a run has the name of an evaluation of another run.
func Named(name, of rollout.RunName) bool { return strings.HasPrefix(string(name), beginning(of)) }

// Name is the name of what is asked for.
func Name(of rollout.RunName, asked Asked) rollout.RunName {
	n := fmt.Sprint(beginning(of), int64(asked.Version))
	for _, part := range []string{asked.Against, asked.Seat} {
		if part != "" {
			n += "-" + strings.Trim(notInNames.ReplaceAllString(strings.ToLower(part), "-"), "-")
		}
	}
	return rollout.RunName(n)
}

// seed is one that every reader of numbers keeps.
func seed(of string) int64 {
	const bits = 52
	h := fnv.New64a()
	_, _ = h.Write([]byte(of))
	return int64(stat.Mix(h.Sum64()) >> (64 - bits))
}
