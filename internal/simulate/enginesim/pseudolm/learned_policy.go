package pseudolm

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/simulate/enginesim/tokenizer"
)

// PolicyTensor is the name of a policy's weights in an adapter's safetensors file.
const PolicyTensor = "policy.weight"

const (
	policyWeights = 1 << 16
	// promptBytes is how much of the prompt's end a policy sees.
	promptBytes = 64
)

// Policy is a model that learns: a token's logit is the sum of the weights of the prompt's features for this token
// after what has been answered so far. A feature is two characters of the prompt's end and where they stand; space does
// not count. Features share weights where their hashes collide. The zero weights make all tokens as likely.
type Policy [policyWeights]float32

// ReadPolicy finds a policy's weights in a safetensors file.
func ReadPolicy(file []byte) (*Policy, error) {
	const lengthBytes = 8
	if len(file) < lengthBytes || binary.LittleEndian.Uint64(file) > uint64(len(file)-lengthBytes) {
		return nil, errors.New("the safetensors file has no whole header")
	}
	data := file[lengthBytes+binary.LittleEndian.Uint64(file):]
	var header map[string]struct {
		DType   string   `json:"dtype"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	if err := json.Unmarshal(file[lengthBytes:len(file)-len(data)], &header); err != nil {
		return nil, fmt.Errorf("header of the safetensors file: %w", err)
	}
	t, p := header[PolicyTensor], new(Policy)
	begin, end := t.Offsets[0], t.Offsets[1]
	if t.DType != "F32" || begin < 0 || end > int64(len(data)) || end-begin != int64(binary.Size(p)) {
		return nil, fmt.Errorf("no tensor %s of %d values F32", PolicyTensor, len(p))
	}
	_, err := binary.Decode(data[begin:end], binary.LittleEndian, p)
	return p, err
}

// Decision is one token of an answer, among those that could have been sampled.
type Decision struct {
	Features []uint64 // of the prompt
	After    uint64   // hash of the answer so far
	IDs      []tokenizer.ID
	Probs    []float64
	Picked   int // index of the answer's token
}

// Weight is where a policy keeps its weight of a feature for a token after an answer.
func Weight(feature, after uint64, token tokenizer.ID) int {
	return int((feature ^ after ^ stat.Mix(uint64(token)+1)) * 0x9E3779B97F4A7C15 >> 48)
}

// Replay is the decisions that a policy would have had to make to give an answer, under the parameters with which it
// was sampled.
func (m *Model) Replay(policy *Policy, prompt, answer []tokenizer.ID, p Params) ([]Decision, error) {
	s := newSampler(m, Weights{Policy: policy}, prompt, &p)
	var decisions []Decision
	for _, id := range answer {
		if err := s.candidates(); err != nil {
			return nil, err
		}
		s.distribution()
		s.truncate()
		picked := slices.Index(s.ids, id)
		if picked < 0 || s.probs[picked] == 0 {
			return nil, fmt.Errorf("token %d could not have been sampled", id)
		}
		d := Decision{Features: s.features, After: s.after, IDs: slices.Clone(s.ids), Picked: picked}
		for _, p := range s.probs {
			d.Probs = append(d.Probs, p/s.total)
		}
		decisions = append(decisions, d)
		s.take(picked)
	}
	return decisions, nil
}

// features hashes each pair of visible characters at the end of a prompt, and each of them by itself.
func (m *Model) features(prompt []tokenizer.ID) []uint64 {
	var seen []uint64 // character and place
	for i, place := len(prompt)-1, 0; i >= 0 && place < promptBytes; i-- {
		piece, _ := m.tokens.Piece(prompt[i])
		for at := len(piece) - 1; at >= 0; at, place = at-1, place+1 {
			if c := piece[at]; c > ' ' && place < promptBytes {
				seen = append(seen, uint64(place)<<8|uint64(c))
			}
		}
	}
	features := make([]uint64, 0, len(seen)*(len(seen)+1)/2)
	for i, a := range seen {
		for _, b := range seen[i:] {
			features = append(features, stat.Mix(a<<32|b))
		}
	}
	return features
}

// learnedDistribution fills probs by the policy.
func (s *sampler) learnedDistribution() {
	if s.features == nil {
		s.features = s.model.features(s.text)
	}
	for i, id := range s.ids {
		logit := 0.0
		for _, f := range s.features {
			logit += float64(s.weights.Policy[Weight(f, s.after, id)])
		}
		if id == tokenizer.EOS {
			logit += s.model.eosBias
		}
		s.probs[i] = logit / s.temperature()
	}
	top := slices.Max(s.probs)
	for i, logit := range s.probs {
		s.probs[i] = math.Exp(logit - top)
	}
}
