package workflows

import (
	"reflect"
	"testing"
	"time"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/run/runmachine"
	"github.com/millrace/millrace/internal/store/buffer"
)

func demoSpec() runspec.Spec {
	return runspec.Spec{
		Name: "demo", Model: "base", Steps: 5,
		Environment: runspec.Environment{Kind: "tictactoe"},
		Group:       runspec.GroupSpec{Samples: 2, MinSamples: 2},
		Buffer:      runspec.BufferSpec{Depth: 2, GroupsPerStep: 3, MaxStaleness: 4, OnStale: runspec.DropStale},
		Sampling:    rollout.Sampling{Temperature: 1, TopP: 1, MaxTokens: 8},
		Timeouts: runspec.Timeouts{
			Completion: rollout.Duration(time.Minute), Episode: rollout.Duration(time.Hour),
			Heartbeat: rollout.Duration(10 * time.Second),
		},
	}
}

func TestValidateChange(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change spec.Change
		ok     bool
	}{
		{"deeper", spec.Change{Set: settings.Patch{"buffer.depth": 4}}, true},
		{"pause", spec.Pause(true), true},
		{"nothing", spec.Change{}, false},
		{"no depth", spec.Change{Set: settings.Patch{"buffer.depth": 0}}, false},
		{"absurd depth", spec.Change{Set: settings.Patch{"buffer.depth": 1000}}, false},
		{"more samples than children allow", spec.Change{Set: settings.Patch{"buffer.groups_per_step": 1400}}, false},
		{"fewer samples than the minimum", spec.Change{Set: settings.Patch{"group.samples": 1}}, false},
		{"fewer samples and minimum", spec.Change{Set: settings.Patch{"group.samples": 1, "group.min_samples": 1}}, true},
		{"negative staleness", spec.Change{Set: settings.Patch{"buffer.max_staleness": -1}}, false},
		{"steps already claimed", spec.Change{Set: settings.Patch{"steps": 1}}, false},
		{"unknown policy", spec.Change{Set: settings.Patch{"buffer.on_stale": "burn"}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := runmachine.NewRun(demoSpec(), time.Time{})
			s.Claimed = 2
			err := validateChange(s, tt.change)
			if (err == nil) != tt.ok {
				t.Errorf("got %v", err)
			}
			if err != nil && !rollout.Refused(err, rollout.Invalid) {
				t.Errorf("%v is not an Invalid refusal", err)
			}
		})
	}
	over := runmachine.NewRun(demoSpec(), time.Time{})
	over.State = runstatus.RunCompleted
	if err := validateChange(over, spec.Change{Set: settings.Patch{"buffer.depth": 3}}); !rollout.Refused(err,
		rollout.RunOver) {
		t.Errorf("a finished run took a change: %v", err)
	}
}

func TestGroupSeedsDiffer(t *testing.T) {
	t.Parallel()
	seen := map[int64]bool{}
	for seed := range int64(3) {
		for seq := range rollout.GroupSeq(1000) {
			s := groupSeed(seed, seq)
			if s < 0 || seen[s] {
				t.Fatalf("seed %d of group %d is negative or repeated", s, seq)
			}
			seen[s] = true
		}
	}
}

func TestTheMachineIsToldTheWholeAccount(t *testing.T) {
	t.Parallel()
	seqs := []rollout.GroupSeq{1}
	got := reflect.ValueOf(accountOf(activities.Account{FleetHistory: "h", Told: &runstatus.RunStatus{}, Unheard: seqs,
		Account: buffer.Account{
			Highest: 1, Queued: seqs, InFlight: seqs, Ready: seqs, ClaimedTo: 1, NextStep: 1, Version: 1, GroupBytes: 1,
			Counts: steprecord.BufferCounts{Bytes: 1}, Mark: runstatus.Mark{Era: 1}, ReplicationID: "r",
			ConfirmedUnder: "r", Refills: 1, Mirrors: 1,
		}}))
	for i := range got.NumField() {
		if got.Field(i).IsZero() {
			t.Errorf("no %s", got.Type().Field(i).Name)
		}
	}
}
