package workload

import (
	"math"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
)

// Spread is a quantity that varies about a mean: lognormal, with Spread as its coefficient of variation. 0: it is
// always the mean. Of a whole number that has no whole mean, the two numbers around it are drawn so that their mean is.
type Spread struct {
	Mean   float64 `json:"mean"`
	Spread float64 `json:"spread,omitempty"`
}

// Distribution draws games.
type Distribution struct {
	Phases Spread `json:"phases"` // of a game
	Agents Spread `json:"agents"` // that decide in a phase
	Prompt Spread `json:"prompt_tokens"`
	// Growth is how many tokens a prompt is longer than that of the phase before.
	Growth float64 `json:"prompt_growth,omitempty"`
	Output Spread  `json:"output_tokens"`
	// Env is the time in the environment in each phase, in seconds.
	Env Spread `json:"env_seconds"`
	// Shared is how much of the prompts is the same, for engines that cache prefixes.
	Shared SharedTokens `json:"shared_tokens"`

	Failures     float64 `json:"failure_share,omitempty"`       // games that come to nothing
	ZeroVariance float64 `json:"zero_variance_share,omitempty"` // groups whose rewards are all equal
	// Stragglers is the share of games that are StragglerFactor times as long as drawn.
	Stragglers      float64 `json:"straggler_share,omitempty"`
	StragglerFactor float64 `json:"straggler_factor"`
}

// SharedTokens is with how many tokens prompts begin that others have, too, all counted from the start of a prompt.
type SharedTokens struct {
	System int `json:"system,omitempty"` // all prompts of the run
	Group  int `json:"group,omitempty"`  // those of one agent in all games of a group
	Game   int `json:"game,omitempty"`   // those of one agent in one game
}

// MaxPhases bounds a drawn game, and MaxTokens a drawn prompt or answer.
const (
	MaxPhases = 10_000
	MaxTokens = 1 << 20
	maxAgents = 1024
)

// DistributedGames are games drawn from a distribution: Games.
type DistributedGames struct {
	of   Distribution
	seed uint64
}

var _ Games = (*DistributedGames)(nil)

// NewDistributedGames draws games; the same seed draws the same ones.
func NewDistributedGames(of Distribution, seed uint64) *DistributedGames {
	return &DistributedGames{of: of, seed: virtualtime.NewRandom(seed, "games").Uint64()}
}

// Streams of one seed: what is drawn of a group and of a game must not depend on each other.
const (
	gameStream uint64 = iota + 1
	groupStream
	prefixKey
)

// hash mixes numbers into one.
func hash(seed uint64, numbers ...uint64) uint64 {
	for _, n := range numbers {
		seed = virtualtime.SplitMix(seed ^ n*0x9E3779B97F4A7C15).Uint64()
	}
	return seed
}

// ZeroVariance reports whether the rewards of a group's games are all equal.
func (g *DistributedGames) ZeroVariance(ref rollout.GroupRef) bool {
	return virtualtime.SplitMix(hash(g.seed, groupStream, uint64(ref.Seq))).Float64() < g.of.ZeroVariance
}

// Game draws the game of a reference.
func (g *DistributedGames) Game(ref rollout.EpisodeRef) Game {
	d := &g.of
	r := virtualtime.SplitMix(hash(g.seed, gameStream, uint64(ref.Seq), uint64(ref.Sample)))
	length := d.Phases
	if d.Stragglers > 0 && r.Float64() < d.Stragglers {
		length.Mean *= d.StragglerFactor
	}
	phases := whole(r, length, 1, MaxPhases)
	game := Game{Phases: make([]Phase, phases)}
	var turns []Turn
	ends := make([]int, phases)
	for i := range game.Phases {
		game.Phases[i].Env = time.Duration(draw(r, d.Env) * float64(time.Second))
		agents := whole(r, d.Agents, 1, maxAgents)
		if turns == nil {
			turns = make([]Turn, 0, phases*agents)
		}
		game.Agents = max(game.Agents, agents)
		for agent := range agents {
			prompt := draw(r, d.Prompt) + d.Growth*float64(i)
			turns = append(turns, Turn{
				Agent: agent, Prompt: rounded(r, prompt, 1, MaxTokens), Output: whole(r, d.Output, 1, MaxTokens),
			})
		}
		ends[i] = len(turns)
	}
	g.share(ref, game.Agents, turns)
	from := 0
	for i := range game.Phases {
		game.Phases[i].Turns = turns[from:ends[i]:ends[i]]
		from = ends[i]
	}
	if d.Failures > 0 && r.Float64() < d.Failures {
		game.Fails = rollout.CodeInternal
	}
	return game
}

// share says which leading tokens the prompts of a game have in common with others.
func (g *DistributedGames) share(ref rollout.EpisodeRef, agents int, turns []Turn) {
	s := g.of.Shared
	if max(s.System, s.Group, s.Game) == 0 {
		return
	}
	prefixes := make([]Prefix, 0, 3*agents)
	ends := make([]int, agents)
	for agent := range agents {
		of := len(prefixes)
		add := func(tokens int, key uint64) {
			if tokens > 0 && (len(prefixes) == of || tokens > prefixes[len(prefixes)-1].Tokens) {
				prefixes = append(prefixes, Prefix{Key: key, Tokens: tokens})
			}
		}
		add(s.System, hash(g.seed, prefixKey))
		add(s.Group, hash(g.seed, prefixKey, uint64(ref.Seq), uint64(agent)))
		add(s.Game, hash(g.seed, prefixKey, uint64(ref.Seq), uint64(agent), uint64(ref.Sample)+1))
		ends[agent] = len(prefixes)
	}
	for i := range turns {
		from := 0
		if agent := turns[i].Agent; agent > 0 {
			from = ends[agent-1]
		}
		turns[i].Shared = prefixes[from:ends[turns[i].Agent]:ends[turns[i].Agent]]
	}
}

// draw is one value of a quantity.
func draw(r *virtualtime.Random, s Spread) float64 {
	if s.Spread <= 0 || s.Mean <= 0 {
		return s.Mean
	}
	variance := math.Log(1 + s.Spread*s.Spread)
	return s.Mean * math.Exp(math.Sqrt(variance)*r.Normal()-variance/2)
}

// whole is one value of a quantity of whole numbers.
func whole(r *virtualtime.Random, s Spread, least, most int) int {
	return rounded(r, draw(r, s), least, most)
}

// rounded is x as a whole number, up or down so that the mean stays.
func rounded(r *virtualtime.Random, x float64, least, most int) int {
	x = min(max(x, float64(least)), float64(most))
	n := math.Floor(x)
	if rest := x - n; rest > 0 && r.Float64() < rest {
		n++
	}
	return int(n)
}
