package fleet

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/engine/adapterfiles"
	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// An engine may take an adapter, list it, and answer with other weights: of the base model, of the version before, of
// the adapter at a wrong scale. No answer shows it, and the run learns from samples of another policy than it thinks.
// Probes tell: texts with the logprobs that the trainer's forward pass gives.

// codeDoesNotAct is for an adapter that an engine serves and that does not act there as it does in the trainer.
const codeDoesNotAct = rollout.Code(enginestate.DoesNotAct)

// defaultProbeBound is how far, in nats on average, an engine's logprobs may be from the trainer's.
const defaultProbeBound = 0.1

// Bounds of how much of the trainer's move from other weights an engine may make, and from which move on it is looked
// at: so many times the engine's own noise, and never below the last digits of 32 bits.
const (
	leastMove, mostMove = 0.5, 2.0
	movesBeyondNoise    = 8
	leastNoise          = 1e-5 // nats
)

// scoresAtOnce is how many requests of its probes an engine gets at a time: they share its batches.
const scoresAtOnce = 16

// scores are logprobs of the same tokens, of all probes one after another.
type scores struct {
	trainer, trainerBase, trainerPrevious []float64
	engine, base, previous                []float64 // previous is nil where the engine does not have it
	baseAgain                             []float64 // of the first probe, asked twice
}

// prove holds an adapter that an engine has loaded against its probes, if it has any, and records what came of it.
// Until then the engine gets no requests for it.
func (l Loader) prove(ctx context.Context, c Client, engine rollout.EngineID, a Adapter, models []vllm.Model) error {
	probes, err := l.Files.Probes(ctx, a.Prefix, a.Path)
	if err != nil {
		return err
	}
	proof, fault := enginestate.AdapterProof{Verdict: enginestate.NoProbes}, ""
	if len(probes) > 0 {
		s, err := score(ctx, c, a, probes, models)
		if err != nil {
			return fmt.Errorf("probe adapter %s: %w", a.Name, err)
		}
		proof, fault = s.judge(cmp.Or(a.ProbeBound, defaultProbeBound))
	}
	if l.Records != nil {
		err = l.Records.RecordProof(ctx, engine, a, proof)
	}
	if fault != "" {
		return rollout.Fail(rollout.Permanent, codeDoesNotAct,
			fmt.Errorf("adapter %s does not act as in the trainer: %s", a.Name, fault))
	}
	return err
}

// score asks an engine for the logprobs of the probes.
func score(ctx context.Context, c Client, a Adapter, probes []adapterfiles.Probe, models []vllm.Model) (s scores,
	err error) {
	base, previous := a.Base, ""
	if bases := baseModels(models); base == "" && len(bases) > 0 {
		base = bases[0]
	}
	if a.Version > 1 && !slices.ContainsFunc(probes, func(p adapterfiles.Probe) bool { return len(p.Previous) == 0 }) {
		name := (a.Version - 1).Adapter(a.Run)
		if _, has := adapterRoots(models)[name]; has {
			previous = name
		}
	}
	texts := append(slices.Clone(probes), probes[0]) // the last is the base model's alone, for its noise
	answers := make([][3][]float64, len(texts))      // of the adapter, of the base model, of the version before
	var all errgroup.Group
	all.SetLimit(scoresAtOnce)
	for i, p := range texts {
		for m, model := range []string{a.Name, base, previous} {
			if model == "" || i == len(probes) && m != 1 {
				continue
			}
			all.Go(func() error {
				logprobs, err := c.Score(ctx, model, p.Tokens)
				if err == nil {
					answers[i][m] = logprobs[p.From-1:]
				}
				return err
			})
		}
	}
	if err := all.Wait(); err != nil {
		return s, err
	}
	for i, p := range probes {
		s.trainer = append(s.trainer, p.Logprobs...)
		s.trainerBase, s.trainerPrevious = append(s.trainerBase, p.Base...), append(s.trainerPrevious, p.Previous...)
		s.engine, s.base = append(s.engine, answers[i][0]...), append(s.base, answers[i][1]...)
		s.previous = append(s.previous, answers[i][2]...)
	}
	s.baseAgain = answers[len(probes)][1]
	return s, nil
}

// judge says what the scores prove, and why the engine does not serve the trainer's weights; empty: it does, as far as
// the probes tell.
func (s *scores) judge(bound float64) (proof enginestate.AdapterProof, fault string) {
	noise := max(meanDistance(s.baseAgain, s.base[:len(s.baseAgain)]), leastNoise)
	proof = enginestate.AdapterProof{Verdict: enginestate.DoesNotAct, FromTrainer: meanDistance(s.engine, s.trainer),
		FromBase: meanDistance(s.engine, s.base)}
	numbers := fmt.Sprintf("%.4f nats from the trainer's logprobs (%.4g at most: adapters.probe_bound), %.4f from the "+
		"base model's", proof.FromTrainer, bound, proof.FromBase)
	if s.previous != nil {
		proof.FromPrevious = meanDistance(s.engine, s.previous)
		numbers += fmt.Sprintf(", %.4f from the version before's", proof.FromPrevious)
	}
	for _, other := range []struct {
		name            string
		trainer, engine []float64
	}{{"the base model", s.trainerBase, s.base}, {"the version before", s.trainerPrevious, s.previous}} {
		move, known := s.moveFrom(other.trainer, other.engine, noise)
		switch {
		case !known || move >= leastMove && move <= mostMove:
		case math.Abs(move) < 0.1:
			return proof, "it answers as " + other.name + " does: " + numbers
		default:
			return proof, fmt.Sprintf("it moves its logprobs from %s by %.2f times what the trainer's move: %s", other.name,
				move, numbers)
		}
	}
	if proof.FromTrainer > bound {
		return proof, numbers
	}
	proof.Verdict = enginestate.Proven
	return proof, ""
}

// moveFrom is how much of the trainer's move from other weights the engine makes: 1 is all of it, by least squares. It
// is not known where the trainer hardly moves.
func (s *scores) moveFrom(trainer, engine []float64, noise float64) (move float64, known bool) {
	if len(trainer) != len(s.trainer) || len(engine) != len(s.engine) {
		return 0, false
	}
	if meanDistance(s.trainer, trainer) < movesBeyondNoise*noise {
		return 0, false
	}
	both, square := 0.0, 0.0
	for i := range trainer {
		moved := s.trainer[i] - trainer[i]
		both += moved * (s.engine[i] - engine[i])
		square += moved * moved
	}
	return both / square, true
}

// meanDistance is the mean of the absolute differences; 0 of none.
func meanDistance(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += math.Abs(a[i] - b[i])
	}
	return sum / max(1, float64(len(a)))
}
