package pseudolm

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/millrace/millrace/internal/simulate/enginesim/constraint"
)

// safetensors is a file of one header and so many bytes after it.
func safetensors(header string, bytes int) []byte {
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(file, header...), make([]byte, bytes)...)
}

func TestReadPolicyRefusesWhatIsNone(t *testing.T) {
	t.Parallel()
	const sound = `{"policy.weight":{"dtype":"F32","shape":[65536],"data_offsets":[0,262144]},"__metadata__":{"format":"pt"}}`
	if _, err := ReadPolicy(safetensors(sound, 1<<18)); err != nil {
		t.Error(err)
	}
	for name, file := range map[string][]byte{
		"empty":         nil,
		"long header":   {255, 255, 255, 255, 255, 255, 255, 255, 'x'},
		"no JSON":       safetensors("{", 0),
		"another model": safetensors(`{"lora_A":{"dtype":"F32","data_offsets":[0,4]}}`, 4),
		"cut off":       safetensors(sound, 1<<18-1),
		"another type":  safetensors(`{"policy.weight":{"dtype":"F16","data_offsets":[0,262144]}}`, 1<<18),
		"before":        safetensors(`{"policy.weight":{"dtype":"F32","data_offsets":[-8,262136]}}`, 1<<18),
	} {
		if _, err := ReadPolicy(file); err == nil {
			t.Errorf("%s: it is taken for a policy", name)
		}
	}
}

// What a policy samples follows its weights, and Replay finds the probabilities that were reported.
func TestPolicySamplesByItsWeights(t *testing.T) {
	t.Parallel()
	tok, m := fixture()
	choice, err := constraint.NewCompiler(tok, 1).Choice([]string{"a1", "b1"})
	if err != nil {
		t.Fatal(err)
	}
	prompt, policy := tok.Encode("X . O Your move: "), new(Policy)
	for _, f := range m.features(prompt) {
		policy[Weight(f, 0, int32('a'))] = 0.01
	}
	p := with(func(p *Params) { p.Constraint, p.Temperature = choice, 0.5 })
	hits := 0
	for p.Seed = range 400 {
		c := complete(m, Weights{Policy: policy}, prompt, p)
		decisions, err := m.Replay(policy, prompt, c.Tokens, p)
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range decisions {
			if math.Abs(math.Log(d.Probs[d.Picked])-c.Logprobs[i]) > 1e-9 {
				t.Fatalf("token %d: log-probability %g was reported, %g found", i, c.Logprobs[i], math.Log(d.Probs[d.Picked]))
			}
		}
		if c.Text == "a1" {
			hits++
		}
	}
	logit := 0.01 * float64(len(m.features(prompt))) / 0.5
	if want := 400 / (1 + math.Exp(-logit)); math.Abs(float64(hits)-want) > 30 {
		t.Errorf("a1 came %d times of 400, want about %.0f", hits, want)
	}
	if _, err := m.Replay(policy, prompt, tok.Encode("c"), p); err == nil {
		t.Error("what the constraint forbids was replayed")
	}
}
