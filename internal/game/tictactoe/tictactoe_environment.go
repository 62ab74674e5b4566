// Package tictactoe is a tiny environment: two learners, X and O, take turns to mark one square of a three by three
// board. It shows how little an environment has to be, and makes tests of the rest of the service fast. Against an
// opponent X alone learns, and something can be learned on a machine without a GPU.
//
// Rewards: 1 for three in a row, 0 for the other player, 0.5 each for a full board. A turn by itself earns nothing.
// Start reading at Env, then game.Act.
package tictactoe

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/rollout"
)

// Kind is the name of this environment in a run spec.
const Kind = "tictactoe"

// Config says how games begin.
type Config struct {
	// OpeningMoves are made before the games of a scenario fork, and so the same in all of them.
	OpeningMoves int `json:"opening_moves"`
	// OpeningPlayed has the players make them; else they are drawn.
	OpeningPlayed bool `json:"opening_played"`
	// Opponent plays O: a second learner if it is empty, RandomOpponent, or "policy:NAME", a fixed policy of the run.
	Opponent string `json:"opponent"`
}

// RandomOpponent marks any free square, each as likely as the others.
const RandomOpponent = "random"

// maxOpening leaves nobody three in a row, and so every game something to decide.
const maxOpening = 4

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	if c.OpeningMoves < 0 || c.OpeningMoves > maxOpening {
		return fmt.Errorf("opening_moves: %d is not within 0 and %d", c.OpeningMoves, maxOpening)
	}
	if c.Opponent != "" && c.Opponent != RandomOpponent && c.policy() == "" {
		return fmt.Errorf("opponent: %q is neither %q nor policy:NAME, with NAME among the run's policies; leave it out "+
			"for a second learner", c.Opponent, RandomOpponent)
	}
	if c.Opponent != "" && c.OpeningPlayed {
		return fmt.Errorf("opponent: %s plays no opening; leave opening_played out", c.Opponent)
	}
	return nil
}

// policy is the name of the fixed policy that plays O, if one does.
func (c Config) policy() string {
	if name, is := strings.CutPrefix(c.Opponent, rollout.PlayedByPolicy); is {
		return name
	}
	return ""
}

// Env makes games of one configuration.
type Env struct {
	cfg Config
}

var (
	_ episode.Warmer  = (*Env)(nil)
	_ episode.Opposed = (*Env)(nil)
)

// New makes an Env.
func New(cfg Config) (*Env, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("tictactoe: %w", err)
	}
	return &Env{cfg: cfg}, nil
}

// FromOptions makes an Env from the options of a run spec; nil means all defaults.
func FromOptions(options json.RawMessage) (*Env, error) {
	var cfg Config
	if err := episode.ReadOptions(options, &cfg); err != nil {
		return nil, fmt.Errorf("tictactoe: %w (the options are opening_moves, opening_played and opponent)", err)
	}
	return New(cfg)
}

// position is a game between two moves; it is scenario and checkpoint alike.
type position struct {
	Moves   []int `json:"moves"`             // squares in the order they were marked: X, O, X, ...
	Opening int   `json:"opening,omitempty"` // in a warm-up: how many of them it has
	// Seed is of the random opponent's moves.
	Seed uint64 `json:"seed,omitempty"`
}

// Scenario draws the opening moves.
func (e *Env) Scenario(seed int64) ([]byte, error) {
	rng := rand.New(rand.NewPCG(uint64(seed), 0))
	return json.Marshal(position{Moves: rng.Perm(squares)[:e.cfg.OpeningMoves]})
}

// Policies names the fixed policy that plays O, if one does.
func (e *Env) Policies() []string {
	if name := e.cfg.policy(); name != "" {
		return []string{name}
	}
	return nil
}

// Warms reports whether the players make the opening moves.
func (e *Env) Warms() bool { return e.cfg.OpeningPlayed && e.cfg.OpeningMoves > 0 }

// WarmUp is the game of the opening moves.
func (e *Env) WarmUp(int64) (episode.Game, error) { return &game{opening: e.cfg.OpeningMoves}, nil }

// Fork makes a scenario of them.
func (e *Env) Fork(checkpoint []byte) ([]byte, error) {
	p, err := readPosition(checkpoint)
	if err != nil {
		return nil, err
	}
	return json.Marshal(position{Moves: p.Moves})
}

// Start begins a game. The random opponent, if there is one, draws other moves in each game of a group.
func (e *Env) Start(scenario []byte, seed int64, sample int) (episode.Game, error) {
	p, err := readPosition(scenario)
	if err != nil {
		return nil, err
	}
	if e.cfg.Opponent == RandomOpponent {
		p.Seed = rand.NewPCG(uint64(seed), uint64(sample)).Uint64()
	}
	return e.game(p)
}

// Resume continues a game.
func (e *Env) Resume(checkpoint []byte) (episode.Game, error) {
	p, err := readPosition(checkpoint)
	if err != nil {
		return nil, err
	}
	return e.game(p)
}

func readPosition(text []byte) (p position, err error) {
	if err := json.Unmarshal(text, &p); err != nil {
		return p, fmt.Errorf("tictactoe: read position: %w", err)
	}
	return p, nil
}

func (e *Env) game(p position) (*game, error) {
	g := &game{opening: p.Opening, opponent: e.cfg.Opponent, policy: e.cfg.policy(), seed: p.Seed}
	for _, at := range p.Moves {
		if at < 0 || at >= squares || g.board[at] != 0 || g.Done() {
			return nil, fmt.Errorf("tictactoe: position %v: square %d cannot be marked", p.Moves, at)
		}
		g.mark(at)
	}
	g.answer()
	return g, nil
}

// The counters of an Outcome.
const (
	CountLegal   = "moves_legal"
	CountIllegal = "moves_illegal"
	// Of a fixed policy that plays O: one that is held to no constraint may answer anything.
	CountOpponentLegal   = "opponents_legal"
	CountOpponentIllegal = "opponents_illegal"
)

var players = [2]string{"X", "O"}

type game struct {
	board    [squares]byte
	moves    []int
	opening  int    // in a warm-up: after how many moves it is over
	opponent string // as in Config
	policy   string // the fixed policy that plays O
	seed     uint64 // of the random opponent
}

func (g *game) Phase() string {
	if g.Done() {
		return "END"
	}
	return fmt.Sprintf("%s%d", g.mover(), len(g.moves)/2+1)
}

func (g *game) Done() bool {
	return g.winner() != 0 || len(g.moves) == squares || g.opening > 0 && len(g.moves) >= g.opening
}

func (g *game) mover() string { return players[len(g.moves)%2] }

func (g *game) mark(at int) {
	g.board[at] = g.mover()[0]
	g.moves = append(g.moves, at)
}

// answer has the random opponent move, if it is its turn. What it marks follows from its seed and the moves so far.
func (g *game) answer() {
	if g.opponent != RandomOpponent || g.Done() || g.mover() != "O" {
		return
	}
	drawn := rand.New(rand.NewPCG(g.seed, uint64(len(g.moves)))).Perm(squares)
	for _, at := range drawn {
		if g.board[at] == 0 {
			g.mark(at)
			return
		}
	}
}

// Prompts asks the player whose turn it is.
func (g *game) Prompts() ([]episode.Prompt, error) {
	if g.Done() {
		return nil, nil
	}
	asked := episode.Prompt{
		Agent:      g.mover(),
		Text:       prompt(g.board, g.mover()),
		Constraint: rollout.Constraint{Kind: rollout.ChoiceConstraint, Choices: g.free()},
		MaxTokens:  4,
	}
	if g.mover() == "O" {
		asked.Policy = g.policy
	}
	return []episode.Prompt{asked}, nil
}

// Act marks the square that the player names. An answer that names none, or a marked one, marks the first free square.
func (g *game) Act(answers map[string]string) (episode.Outcome, error) {
	if g.Done() {
		return episode.Outcome{}, fmt.Errorf("tictactoe: the game is over")
	}
	answer, ok := answers[g.mover()]
	if !ok {
		return episode.Outcome{}, fmt.Errorf("tictactoe: no answer of %s", g.mover())
	}
	legal, illegal := CountLegal, CountIllegal
	if g.mover() == "O" && g.policy != "" {
		legal, illegal = CountOpponentLegal, CountOpponentIllegal
	}
	at, count := parseSquare(answer), legal
	if at < 0 || g.board[at] != 0 {
		at, count = slices.Index(g.board[:], 0), illegal
	}
	g.mark(at)
	g.answer()
	return episode.Outcome{Counts: map[string]int64{count: 1}}, nil
}

func (g *game) Checkpoint() ([]byte, error) {
	return json.Marshal(position{Moves: g.moves, Opening: g.opening, Seed: g.seed})
}

// Seats compares X and O; where two learners play, they are one player.
func (g *game) Seats() []rollout.Seat {
	x, o := 0.5, 0.5
	switch g.winner() {
	case 'X':
		x, o = 1, 0
	case 'O':
		x, o = 0, 1
	}
	return []rollout.Seat{{Place: "X", Score: x}, {Place: "O", Player: g.opponent, Score: o}}
}

// Result rewards the learners.
func (g *game) Result() (episode.Result, error) {
	if !g.Done() {
		return episode.Result{}, fmt.Errorf("tictactoe: the game is not over")
	}
	rewards := map[string]float64{"X": 0.5, "O": 0.5}
	if w := g.winner(); w != 0 {
		rewards = map[string]float64{"X": 0, "O": 0}
		rewards[string(w)] = 1
	}
	if g.opponent != "" {
		delete(rewards, "O")
	}
	return episode.Result{Rewards: rewards}, nil
}
