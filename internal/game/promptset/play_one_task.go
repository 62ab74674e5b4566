package promptset

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/game/prompting"
	"github.com/millrace/millrace/internal/game/specurl"
	"github.com/millrace/millrace/internal/rollout"
)

// task is what a row asks: the scenario of a group.
type task struct {
	From     string            `json:"from"` // "line 3" of the dataset, or "row 3"
	Prompt   string            `json:"prompt,omitempty"`
	Messages []rollout.Message `json:"messages,omitempty"`
	Answers  []string          `json:"answers,omitempty"` // each of which is right
	Row      json.RawMessage   `json:"row,omitempty"`     // for a webhook
}

// task makes a row a task.
func (c *Config) task(row map[string]any) (t task, err error) {
	if messages, given := row["messages"]; given && c.Chat && c.Template == "" {
		t.Messages, err = messagesOf(messages)
	} else {
		template := c.Template
		if template == "" {
			template = "{prompt}"
		}
		t.Prompt, err = prompting.Fill(template, row)
	}
	if err != nil {
		return t, err
	}
	if c.Verifier.Kind == webhook {
		if t.Row, err = json.Marshal(row); err != nil {
			return t, err
		}
	}
	if c.Verifier.asks() && row[c.Verifier.Answer] == nil {
		return t, nil // a judge may do without a reference
	}
	t.Answers, err = answersOf(row[c.Verifier.Answer], c.Verifier.Answer)
	return t, err
}

func messagesOf(v any) ([]rollout.Message, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var messages []rollout.Message
	if err := json.Unmarshal(text, &messages); err != nil || len(messages) == 0 {
		return nil, errors.New(`field "messages" is no list of {"role", "content"}`)
	}
	return messages, nil
}

// answersOf is the right answers of a row: text, a number, or a list of them.
func answersOf(v any, name string) (answers []string, err error) {
	list, several := v.([]any)
	if !several {
		list = []any{v}
	}
	for _, one := range list {
		switch one := one.(type) {
		case string:
			answers = append(answers, one)
		case json.Number:
			answers = append(answers, one.String())
		default:
			return nil, fmt.Errorf("field %q with the answer is missing, or neither text, number nor a list of them", name)
		}
	}
	if len(answers) == 0 {
		return nil, fmt.Errorf("field %q has no answer", name)
	}
	return answers, nil
}

// The counters of an Outcome.
const (
	countRight    = "answers_right"
	countWrong    = "answers_wrong"
	countUnparsed = "answers_unparsed" // wrong, and nothing in them was found that could be right
)

// played is a game between two phases; without a Text nothing has been answered.
type played struct {
	task
	Text   *string  `json:"text,omitempty"`
	Reward *float64 `json:"reward,omitempty"`
}

type game struct {
	cfg  *Config
	hook *specurl.Server
	played
}

func (g *game) Phase() string {
	switch {
	case g.Text == nil:
		return "answer"
	case g.Reward == nil:
		return "judge"
	}
	return "END"
}

func (g *game) Done() bool { return g.Reward != nil }

// Prompts asks the learner, and then the judge if a policy is one.
func (g *game) Prompts() ([]episode.Prompt, error) {
	switch {
	case g.Done(), g.Text != nil && g.cfg.Verifier.Kind == webhook:
		return nil, nil
	case g.Text != nil:
		return []episode.Prompt{g.cfg.Verifier.question(&g.played)}, nil
	}
	return []episode.Prompt{g.cfg.Prompt(agent, g.Prompt, g.Messages)}, nil
}

// Act takes the learner's answer, or the judge's. A webhook is asked here, in a phase of its own: what the learner has
// answered is saved by then.
func (g *game) Act(answers map[string]string) (episode.Outcome, error) {
	if g.Done() {
		return episode.Outcome{}, errors.New("prompts: the game is over")
	}
	switch {
	case g.Text != nil && g.cfg.Verifier.Kind == webhook:
		v, err := g.ask(g.hook)
		switch {
		case err != nil:
			return episode.Outcome{}, err
		case v.Right != nil:
			return g.end(*v.Right, true), nil
		}
		g.Reward = v.Reward
		return episode.Outcome{}, nil
	case g.Text != nil:
		return g.end(judged(answers[judge])), nil
	}
	text, ok := answers[agent]
	if !ok {
		return episode.Outcome{}, fmt.Errorf("prompts: no answer of %s", agent)
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	g.Text = &text
	if g.cfg.Verifier.asks() {
		return episode.Outcome{}, nil
	}
	right, parsed := g.cfg.Verifier.verify(text, g.Answers)
	return g.end(right, parsed), nil
}

func (g *game) end(right, parsed bool) episode.Outcome {
	reward, count := 0.0, countWrong
	switch {
	case right:
		reward, count = 1, countRight
	case !parsed:
		count = countUnparsed
	}
	g.Reward = &reward
	return episode.Outcome{Counts: map[string]int64{count: 1}}
}

func (g *game) Checkpoint() ([]byte, error) { return json.Marshal(g.played) }

// Result is what the answer is worth.
func (g *game) Result() (episode.Result, error) {
	if !g.Done() {
		return episode.Result{}, errors.New("prompts: the game is not over")
	}
	return episode.Result{Rewards: map[string]float64{agent: *g.Reward}}, nil
}
