package openenv

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/game/prompting"
	"github.com/millrace/millrace/internal/rollout"
)

// played is a game between two turns.
type played struct {
	Seed    int64             `json:"seed"`
	Actions []json.RawMessage `json:"actions,omitempty"`
	// Hashes are of what each reset or step has brought: what a repetition must bring again.
	Hashes    []string           `json:"hashes,omitempty"`
	Seen      json.RawMessage    `json:"observation,omitempty"` // the latest
	Messages  []rollout.Message  `json:"messages,omitempty"`    // of a chat, before it
	Rewards   map[string]float64 `json:"rewards,omitempty"`     // by player
	Over      bool               `json:"done,omitempty"`
	Truncated bool               `json:"truncated,omitempty"`
}

type game struct {
	env *Env
	played
	session *session // nil: to be opened, and brought to where the game is
}

// begin resets the first session, and takes its observation.
func (g *game) begin() error {
	return g.env.dial.patiently(func() error {
		s, first, err := g.env.dial.open(g.Seed)
		if err != nil {
			return err
		}
		g.session = s
		return g.take(first)
	})
}

// Close ends the session.
func (g *game) Close() error {
	if g.session == nil {
		return nil
	}
	s := g.session
	g.session = nil
	return s.close()
}

// result is the answer to a reset or a step.
type result struct {
	Observation map[string]any `json:"observation"`
	Reward      *float64       `json:"reward"`
	Done        bool           `json:"done"`
}

// hash is of all that a game may depend on: metadata may hold times and machines.
func (r result) hash() (string, error) {
	delete(r.Observation, "metadata")
	text, err := json.Marshal(r)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), err
}

// take goes on to what a reset or a step has brought.
func (g *game) take(r result) error {
	hash, err := r.hash()
	if err != nil {
		return err
	}
	g.Hashes, g.Over = append(g.Hashes, hash), r.Done
	g.Seen, err = json.Marshal(r.Observation)
	return err
}

func (g *game) observation() (fields map[string]any, err error) {
	d := json.NewDecoder(bytes.NewReader(g.Seen))
	d.UseNumber()
	if err := d.Decode(&fields); err != nil || fields == nil {
		return nil, fmt.Errorf("openenv: the observation is no JSON object: %.80s", g.Seen)
	}
	fields["observation"] = json.RawMessage(g.Seen)
	return fields, nil
}

// player is whose turn it is. Environments of several players say so in current_player_id.
func player(fields map[string]any) string {
	if id, ok := fields["current_player_id"]; ok && id != nil {
		return fmt.Sprintf("player_%v", id)
	}
	return "player"
}

func (g *game) Phase() string { return fmt.Sprintf("t%d", len(g.Actions)+1) }

func (g *game) Done() bool { return g.Over }

// Prompts asks the player whose turn it is.
func (g *game) Prompts() ([]episode.Prompt, error) {
	if g.Over {
		return nil, nil
	}
	cfg := &g.env.cfg
	fields, err := g.observation()
	if err != nil {
		return nil, err
	}
	if !episode.IsAgentName(player(fields)) {
		return nil, fmt.Errorf("openenv: current_player_id: %.80q is neither a number nor a name of letters, digits, _ and -",
			fields["current_player_id"])
	}
	text, err := prompting.Fill(cfg.Template, fields)
	if err != nil {
		return nil, err
	}
	p := cfg.Prompt(player(fields), text, g.Messages)
	if cfg.Choices != "" {
		choices, err := choicesOf(fields, cfg.Choices)
		if err != nil {
			return nil, err
		}
		p.Constraint.Kind = rollout.ChoiceConstraint
		for _, c := range choices {
			p.Constraint.Choices = append(p.Constraint.Choices, fmt.Sprint(c))
		}
	}
	return []episode.Prompt{p}, nil
}

// choicesOf is the values of an observation's field that may be answered.
func choicesOf(fields map[string]any, name string) ([]any, error) {
	list, _ := fields[name].([]any)
	if len(list) == 0 {
		return nil, fmt.Errorf("openenv: choices: the observation has no list %q", name)
	}
	for _, v := range list {
		switch v.(type) {
		case string, json.Number:
		default:
			return nil, fmt.Errorf("openenv: choices: %q has other values than texts and numbers", name)
		}
	}
	return list, nil
}

// The counters of an Outcome.
const (
	countValid   = "actions_valid"
	countInvalid = "actions_invalid"
)

// Act sends what the player has answered as an action.
func (g *game) Act(answers map[string]string) (episode.Outcome, error) {
	fields, err := g.observation()
	if err != nil {
		return episode.Outcome{}, err
	}
	agent := player(fields)
	text, ok := answers[agent]
	if !ok || g.Over {
		return episode.Outcome{}, fmt.Errorf("openenv: no answer of %s, or the game is over", agent)
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	action, err := g.action(fields, text)
	if err != nil {
		return episode.Outcome{}, err
	}
	r, err := g.step(action)
	var invalid *refused
	outcome := episode.Outcome{Counts: map[string]int64{countValid: 1}}
	reward := 0.0
	switch {
	case errors.As(err, &invalid):
		outcome.Counts = map[string]int64{countInvalid: 1}
		reward, g.Over = g.env.cfg.InvalidReward, true
	case err != nil:
		return episode.Outcome{}, err
	default:
		g.chat(fields, text)
		g.Actions = append(g.Actions, action)
		if r.Reward != nil {
			reward = *r.Reward
		}
		if err := g.take(r); err != nil {
			return episode.Outcome{}, err
		}
	}
	if g.Rewards == nil {
		g.Rewards = map[string]float64{}
	}
	g.Rewards[agent] += reward
	outcome.Rewards = map[string]float64{agent: reward}
	if !g.Over && len(g.Actions) >= g.env.cfg.MaxTurns {
		g.Over, g.Truncated = true, true
	}
	return outcome, nil
}

// step takes the action in a session that has come to here, in a new one where that breaks. A server that cannot be
// reached is waited for; an action that ends, or silences, one session after the other is what is wrong.
func (g *game) step(action json.RawMessage) (r result, err error) {
	for range mostBreaks {
		err = g.env.dial.patiently(func() (err error) {
			if g.session == nil {
				g.session, err = g.replayed()
			}
			return err
		})
		if err != nil {
			return r, err
		}
		if r, err = g.session.step(action); err == nil || errors.As(err, new(*refused)) {
			return r, err
		}
		_ = g.Close() // the next one is brought to here
		if !errors.As(err, new(broken)) {
			return r, err
		}
	}
	return r, rollout.Fail(rollout.GameFault, rollout.CodeEnvironmentPanic, fmt.Errorf(
		"%d sessions ended at the same action %.200s, the last: %v", mostBreaks, action, err))
}

// chat adds what was asked and answered to the conversation.
func (g *game) chat(fields map[string]any, text string) {
	if !g.env.cfg.Chat {
		return
	}
	asked, _ := prompting.Fill(g.env.cfg.Template, fields) // it was asked, so it can be made
	g.Messages = append(g.Messages, rollout.Message{Role: "user", Content: asked},
		rollout.Message{Role: "assistant", Content: text})
}

// action is the configured one with an answer in it.
func (g *game) action(fields map[string]any, text string) (json.RawMessage, error) {
	cfg := &g.env.cfg
	found, _ := prompting.Extracted(cfg.extract, text) // without a match: the server judges what is empty
	var value any = found
	if cfg.Choices != "" {
		choices, err := choicesOf(fields, cfg.Choices)
		if err != nil {
			return nil, err
		}
		for _, c := range choices {
			if fmt.Sprint(c) == found {
				value = c
			}
		}
	}
	return json.Marshal(with(cfg.Action, value))
}

// with is a JSON value with an answer in place of its texts "{answer}".
func with(v, value any) any {
	switch v := v.(type) {
	case string:
		if v == answer {
			return value
		}
	case map[string]any:
		filled := map[string]any{}
		for k, of := range v {
			filled[k] = with(of, value)
		}
		return filled
	case []any:
		filled := []any{}
		for _, of := range v {
			filled = append(filled, with(of, value))
		}
		return filled
	}
	return v
}

// replayed is a new session that has come to where the game is.
func (g *game) replayed() (*session, error) {
	s, r, err := g.env.dial.open(g.Seed)
	for at := 0; err == nil; at++ {
		hash, _ := r.hash() // what came as JSON can be written as JSON
		if at < len(g.Hashes) && hash != g.Hashes[at] {
			err = rollout.Fail(rollout.GameFault, rollout.CodeNotDeterministic, fmt.Errorf("openenv: reset with seed %d, and "+
				"played again, turn %d of %d brings another observation: a game must follow from its seed and its actions",
				g.Seed, at, len(g.Actions)))
			break
		}
		if at == len(g.Actions) {
			return s, nil
		}
		r, err = s.step(g.Actions[at])
	}
	if s != nil {
		_ = s.close()
	}
	return nil, err
}

func (g *game) Checkpoint() ([]byte, error) { return json.Marshal(g.played) }

// Result is the sum of each player's rewards.
func (g *game) Result() (episode.Result, error) {
	if !g.Over {
		return episode.Result{}, errors.New("openenv: the game is not over")
	}
	return episode.Result{Rewards: g.Rewards, Truncated: g.Truncated}, nil
}
