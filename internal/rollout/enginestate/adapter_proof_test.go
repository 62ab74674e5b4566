package enginestate_test

import (
	"testing"

	"github.com/millrace/millrace/internal/rollout/enginestate"
)

func TestProofsAreReadByPeople(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]enginestate.AdapterProof{
		"unproven": {Verdict: enginestate.Unproven},
		"proven: 1.2e-06 nats from the trainer, 0.02 from the base model": {Verdict: enginestate.Proven,
			FromTrainer: 1.2e-6, FromBase: 0.02},
		"adapter_does_not_act: 0.3 nats from the trainer, 0 from the base model, 0.12 from the version before": {
			Verdict: enginestate.DoesNotAct, FromTrainer: 0.3, FromPrevious: 0.12},
	} {
		if p.String() != want {
			t.Errorf("%q, want %q", p, want)
		}
	}
	e := enginestate.Engine{Proofs: map[string]enginestate.AdapterProof{
		"a": {Verdict: enginestate.Proven}, "b": {Verdict: enginestate.DoesNotAct}, "c": {Verdict: enginestate.Proven}}}
	if e.Proved(enginestate.Proven) != 2 || e.Proved(enginestate.Unproven) != 0 {
		t.Errorf("%+v", e)
	}
}
