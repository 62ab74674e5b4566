package enginestate

import "fmt"

// ProofVerdict says whether an engine serves the trainer's weights under an adapter's name.
type ProofVerdict string

// The verdicts on an adapter at an engine. It gets requests for one that is proven, or that has no probes.
const (
	Proven     ProofVerdict = "proven"
	Unproven   ProofVerdict = "unproven" // not yet: it loads, or its probes are not answered
	NoProbes   ProofVerdict = "no_probes"
	DoesNotAct ProofVerdict = "adapter_does_not_act"
)

// AdapterProof is what an engine's answers to an adapter's probes said: how far its logprobs are from the trainer's,
// its own of the base model, and its own of the version before, in nats on average.
type AdapterProof struct {
	Verdict      ProofVerdict `json:"verdict"`
	FromTrainer  float64      `json:"from_trainer_nats,omitempty"`
	FromBase     float64      `json:"from_base_nats,omitempty"`
	FromPrevious float64      `json:"from_previous_nats,omitempty"` // 0: not compared
}

// Serves reports whether an engine may be sent requests for the adapter.
func (p AdapterProof) Serves() bool { return p.Verdict == Proven || p.Verdict == NoProbes }

// Proved is how many adapters the engine has this verdict on.
func (e Engine) Proved(verdict ProofVerdict) int {
	n := 0
	for _, proof := range e.Proofs {
		if proof.Verdict == verdict {
			n++
		}
	}
	return n
}

// String is the verdict with its numbers.
func (p AdapterProof) String() string {
	if p.Verdict != Proven && p.Verdict != DoesNotAct {
		return string(p.Verdict)
	}
	text := fmt.Sprintf("%s: %.2g nats from the trainer, %.2g from the base model", p.Verdict, p.FromTrainer, p.FromBase)
	if p.FromPrevious > 0 {
		text += fmt.Sprintf(", %.2g from the version before", p.FromPrevious)
	}
	return text
}
