package diplomacyenv

import (
	"github.com/millrace/millrace/internal/game/diplomacy"
	"github.com/millrace/millrace/internal/game/diplomacyenv/orderlang"
	"github.com/millrace/millrace/internal/rollout"
)

// constraint is the language of one power's legal answers.
func (e *Env) constraint(o diplomacy.Options) rollout.Constraint {
	switch e.cfg.Constraint {
	case RegexConstraint:
		return rollout.Constraint{Kind: rollout.RegexConstraint, Pattern: orderlang.Regex(e.m, o)}
	case GrammarConstraint:
		return rollout.Constraint{Kind: rollout.GrammarConstraint, Pattern: orderlang.Grammar(e.m, o)}
	}
	return rollout.Constraint{}
}

// maxTokens never cuts an answer that is forced to be legal; a free one ends at the run's limit.
func (e *Env) maxTokens(o diplomacy.Options) int {
	if e.cfg.Constraint == NoConstraint {
		return 0
	}
	return orderlang.MaxBytes(e.m, o)
}

// stop ends a free answer at its first blank line.
func (e *Env) stop() []string {
	if e.cfg.Constraint == NoConstraint {
		return []string{"\n\n"}
	}
	return nil
}
