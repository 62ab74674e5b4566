package workload

import (
	"fmt"
	"slices"
	"sync"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/simulate/enginesim/constraint"
	"github.com/millrace/millrace/internal/simulate/enginesim/pseudolm"
	"github.com/millrace/millrace/internal/simulate/enginesim/tokenizer"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
)

// BotGames are real games of an environment, played to their end without a model: the environment's own bots answer
// its prompts or, where it has none, words that each prompt's constraint allows. Of the texts only the lengths are
// kept. The groups of a run are those of a live one with the same seed; after some number of them they come again, as
// other games of the same lengths: they have in common with those before what all groups have, such as the rules.
//
// A game is played when it is first asked for, and then kept: several simulations may share one BotGames.
type BotGames struct {
	env     episode.Environment
	spec    runspec.Spec
	groups  int
	drawn   bool // no bots: answers are drawn from what constraints allow
	text    *tokenizer.Tokenizer
	words   *pseudolm.Model
	grammar *constraint.Compiler

	mu        sync.Mutex
	scenarios map[rollout.GroupSeq][]byte
	played    map[gameKey]*playedGame
	common    map[uint64]bool // prefixes that games of several groups begin with; nil: not known yet
	failure   error           // of the first game that could not be played
}

type gameKey struct {
	seq    rollout.GroupSeq
	sample int
}

type playedGame struct {
	Game
	rewards map[string]float64
}

var _ Games = (*BotGames)(nil)

// DefaultGroups is how many different groups are played: several steps' worth, so that the lengths of games vary.
const DefaultGroups = 12

// prefixBlock is for how many tokens one shared prefix is longer than the one before: the block of vLLM's prefix cache.
const prefixBlock = 16

// rememberedConstraints is how many constraints are kept compiled.
const rememberedConstraints = 64

// NewBotGames plays the games of a run's environment. Groups is how many different ones there are; 0: DefaultGroups.
// With drawn the environment's bots are not asked: answers are drawn from what the constraints allow.
func NewBotGames(env episode.Environment, spec runspec.Spec, groups int, drawn bool) *BotGames {
	if groups <= 0 {
		groups = DefaultGroups
	}
	text := tokenizer.New()
	return &BotGames{
		env: env, spec: spec, groups: groups, drawn: drawn, text: text, words: pseudolm.New(text),
		grammar:   constraint.NewCompiler(text, rememberedConstraints),
		scenarios: map[rollout.GroupSeq][]byte{}, played: map[gameKey]*playedGame{},
	}
}

// Err is why a game could not be played, if that was so. Such a game has no phases.
func (b *BotGames) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failure
}

// Game is the game of a reference.
func (b *BotGames) Game(ref rollout.EpisodeRef) Game {
	b.mu.Lock()
	defer b.mu.Unlock()
	groups := rollout.GroupSeq(b.groups)
	game := b.game(gameKey{ref.Seq % groups, ref.Sample}).Game
	if round := uint64(ref.Seq / groups); round > 0 {
		return b.again(game, round)
	}
	return game
}

// again is a game of another round: engines' prefix caches know of it what they know of any group's.
func (b *BotGames) again(game Game, round uint64) Game {
	if b.common == nil {
		b.common = b.findCommon()
	}
	game.Phases = slices.Clone(game.Phases)
	for i := range game.Phases {
		turns := slices.Clone(game.Phases[i].Turns)
		for j := range turns {
			shared := slices.Clone(turns[j].Shared)
			for k := range shared {
				if !b.common[shared[k].Key] {
					shared[k].Key = hash(shared[k].Key, round)
				}
			}
			turns[j].Shared = shared
		}
		game.Phases[i].Turns = turns
	}
	return game
}

// findCommon is the prefixes that the first games of several groups begin with.
func (b *BotGames) findCommon() map[uint64]bool {
	common, first := map[uint64]bool{}, map[uint64]rollout.GroupSeq{}
	for seq := range rollout.GroupSeq(b.groups) {
		for _, phase := range b.game(gameKey{seq, 0}).Phases {
			for _, turn := range phase.Turns {
				for _, p := range turn.Shared {
					if other, known := first[p.Key]; !known {
						first[p.Key] = seq
					} else if other != seq {
						common[p.Key] = true
					}
				}
			}
		}
	}
	return common
}

// ZeroVariance reports whether the rewards of a group's games are all equal, for each agent.
func (b *BotGames) ZeroVariance(ref rollout.GroupRef) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	var rows []rollout.Trajectory
	for sample := range b.spec.Group.Samples {
		g := b.game(gameKey{ref.Seq % rollout.GroupSeq(b.groups), sample})
		for agent, reward := range g.rewards {
			rows = append(rows, rollout.Trajectory{Agent: agent, Reward: reward})
		}
	}
	return rollout.HasZeroVariance(rows)
}

// game plays a game, once.
func (b *BotGames) game(key gameKey) *playedGame {
	if known := b.played[key]; known != nil {
		return known
	}
	g, err := b.play(key)
	if err != nil {
		g = &playedGame{}
		if b.failure == nil {
			b.failure = fmt.Errorf("play game %d of group %d: %w", key.sample, key.seq, err)
		}
	}
	b.played[key] = g
	return g
}

func (b *BotGames) play(key gameKey) (*playedGame, error) {
	seed := b.groupSeed(key.seq)
	scenario, err := b.scenario(key.seq, seed)
	if err != nil {
		return nil, err
	}
	game, err := b.env.Start(scenario, seed, key.sample)
	if err != nil {
		return nil, err
	}
	played := &playedGame{}
	if err := b.phases(game, uint64(seed)+uint64(key.sample), &played.Game); err != nil {
		return nil, err
	}
	result, err := game.Result()
	played.rewards = result.Rewards
	return played, err
}

// groupSeed is the seed of a group, as the run's workflow makes it.
func (b *BotGames) groupSeed(seq rollout.GroupSeq) int64 {
	r := virtualtime.SplitMix(uint64(b.spec.Seed) + uint64(seq)*0x9E3779B97F4A7C15)
	return int64(r.Uint64() >> 1)
}

// scenario is the start of a group's games, played first if its environment has them played.
func (b *BotGames) scenario(seq rollout.GroupSeq, seed int64) ([]byte, error) {
	if known := b.scenarios[seq]; known != nil {
		return known, nil
	}
	var scenario []byte
	var err error
	if warmer, ok := b.env.(episode.Warmer); ok && warmer.Warms() {
		scenario, err = b.warmUp(warmer, seed)
	} else {
		scenario, err = b.env.Scenario(seed)
	}
	b.scenarios[seq] = scenario
	return scenario, err
}

func (b *BotGames) warmUp(warmer episode.Warmer, seed int64) ([]byte, error) {
	game, err := warmer.WarmUp(seed)
	if err != nil {
		return nil, err
	}
	if err := b.phases(game, uint64(seed), &Game{}); err != nil {
		return nil, err
	}
	last, err := game.Checkpoint()
	if err != nil {
		return nil, err
	}
	return warmer.Fork(last)
}

// phases plays a game to its end, and notes the lengths of its turns.
func (b *BotGames) phases(game episode.Game, seed uint64, into *Game) error {
	agents := map[string]int{}
	for !game.Done() {
		prompts, err := game.Prompts()
		if err != nil {
			return err
		}
		answers, tokens, err := b.answers(game, prompts, seed+uint64(len(into.Phases)))
		if err != nil {
			return err
		}
		phase := Phase{Turns: make([]Turn, len(prompts))}
		for i, p := range prompts {
			no, known := agents[p.Agent]
			if !known {
				no = len(agents)
				agents[p.Agent] = no
			}
			phase.Turns[i] = b.turn(p, tokens[i])
			phase.Turns[i].Agent = no
			if p.Policy == "" {
				into.Agents = max(into.Agents, no+1)
			}
		}
		if _, err := game.Act(answers); err != nil {
			return err
		}
		into.Phases = append(into.Phases, phase)
	}
	return nil
}

// answers is what is answered to a phase's prompts, by agent: what bots would say, or else what each constraint allows;
// and how many tokens each answer has, with the end of the sequence.
func (b *BotGames) answers(game episode.Game, prompts []episode.Prompt, seed uint64) (map[string]string, []int, error) {
	tokens := make([]int, len(prompts))
	if played, ok := game.(interface {
		BotAnswers() (map[string]string, error)
	}); ok && !b.drawn {
		answers, err := played.BotAnswers()
		for i, p := range prompts {
			tokens[i] = min(len(b.text.Encode(answers[p.Agent]))+1, b.longest(p))
		}
		return answers, tokens, err
	}
	answers := make(map[string]string, len(prompts))
	for i, p := range prompts {
		c, err := b.draw(p, hash(seed, uint64(i)))
		if err != nil {
			return nil, nil, fmt.Errorf("answer of %s: %w", p.Agent, err)
		}
		answers[p.Agent], tokens[i] = c.Text, max(len(c.Tokens), 1)
	}
	return answers, tokens, nil
}

// draw is a text that a prompt's constraint allows.
func (b *BotGames) draw(p episode.Prompt, seed uint64) (pseudolm.Completion, error) {
	params := pseudolm.DefaultParams()
	params.Seed, params.MaxTokens, params.Stop = seed, b.longest(p), p.Stop
	if s := b.spec.Sampling; s.TopP > 0 {
		params.Temperature, params.TopP = s.Temperature, s.TopP
	}
	var err error
	params.Constraint, err = b.grammar.Of(p.Constraint)
	if err != nil {
		return pseudolm.Completion{}, err
	}
	return b.words.Complete(pseudolm.WeightsOf(b.spec.Model), b.text.Encode(p.Text), params)
}

// longest is how many tokens an answer may have.
func (b *BotGames) longest(p episode.Prompt) int {
	most := b.spec.Sampling.MaxTokens
	if p.MaxTokens > 0 && (most == 0 || p.MaxTokens < most) {
		most = p.MaxTokens
	}
	return max(most, 1)
}

// turn is the lengths of a prompt and its answer, and every whole block with which the prompt begins, so that engines
// can find what prompts have in common.
func (b *BotGames) turn(p episode.Prompt, answer int) Turn {
	prompt := b.text.Encode(p.Text)
	t := Turn{
		Prompt: max(len(prompt), 1), Output: answer, Policy: p.Policy,
		Shared: make([]Prefix, 0, len(prompt)/prefixBlock),
	}
	chain := uint64(14695981039346656037)
	for i, id := range prompt {
		chain = (chain ^ uint64(uint32(id))) * 0x9E3779B97F4A7C15
		chain ^= chain >> 29
		if end := i + 1; end%prefixBlock == 0 {
			t.Shared = append(t.Shared, Prefix{Key: chain, Tokens: end})
		}
	}
	t.Shared = slices.Clip(t.Shared)
	return t
}
