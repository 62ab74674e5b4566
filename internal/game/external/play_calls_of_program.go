package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/rollout"
)

// played is a game between two turns.
type played struct {
	Scenario json.RawMessage       `json:"scenario"`
	Calls    map[string][]answered `json:"calls,omitempty"` // of each agent
}

// answered is a call that has been answered.
type answered struct {
	Hash   string `json:"hash"`
	Policy string `json:"policy,omitempty"`
	Answer Answer `json:"answer"`
}

type game struct {
	cfg  *Config
	mail Mail
	played
	at      Attempt
	asked   Standing          // when calls became prompts
	pending map[string]Call   // that became prompts, by agent
	got     map[string]Answer // what they were answered
	unfit   map[string]string // of those that no engine accepts, the reason, by id
	over    *Ending
}

var _ episode.Awaited = (*game)(nil)

// Await waits for calls that no turn has answered yet, and answers all others.
//
// A program that lost its lease is followed by another one, which begins at the start. It gets the answers that were
// given before as long as it asks the same. What it asks otherwise begins anew from there: an agent's calls are those
// that its present program has made, in the order in which they were answered.
func (g *game) Await(ctx context.Context, ref rollout.EpisodeRef, attempt int, left time.Duration) (taken time.Duration,
	err error) {
	g.at = Attempt{ref, attempt}
	holder, last := "", int64(0)
	err = g.mail.Await(ctx, ref, func(told *Standing) (more bool, err error) {
		now := told
		switch {
		case told == nil:
			now, err = g.stands(ctx)
		case told.Posted <= g.asked.Posted: // the game was seen since
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if now.Leased && now.Lease == holder {
			taken += time.Duration(now.Now-last) * time.Millisecond
		}
		holder, last = now.Lease, now.Now
		if taken > left && left >= 0 && now.Over == nil {
			late := &Ending{Failed: "the game has taken longer than timeouts.episode"}
			_, err = g.mail.Answer(ctx, g.at, now.Lease, Call{}, 0, Answer{}, late)
			return false, err
		}
		err = g.take(ctx, *now)
		return err == nil && g.over == nil && len(g.pending) == 0, err
	})
	return taken, err
}

// stands is how the game stands, after the calls of the phase before, which is saved, were answered to the program that
// made them. If another has the game meanwhile, the mail does nothing.
func (g *game) stands(ctx context.Context) (now *Standing, err error) {
	asked := g.asked
	for agent, a := range g.got {
		call, place := g.pending[agent], asked.Places[agent]+1
		call.Told = true
		if g.asked, err = g.mail.Answer(ctx, g.at, asked.Lease, call, place, a, nil); err != nil {
			return nil, err
		}
		now = &g.asked
	}
	g.pending, g.got = map[string]Call{}, map[string]Answer{}
	if now == nil {
		g.asked, err = g.mail.Look(ctx, g.at, g.Scenario)
	}
	return &g.asked, err
}

// take answers the calls that wait, or has them asked in the next phase.
func (g *game) take(ctx context.Context, now Standing) (err error) {
	for answered := true; answered; {
		g.asked, g.pending = now, map[string]Call{}
		if g.over = now.Over; g.over != nil {
			return g.end(now.Places)
		}
		answered = false
		for _, call := range now.Calls {
			if now, answered, err = g.answer(ctx, now, call); err != nil {
				return err
			}
			if answered {
				break // and see how the game stands then
			}
		}
	}
	return nil
}

// answer answers a call, or has it asked in the next phase.
func (g *game) answer(ctx context.Context, now Standing, call Call) (Standing, bool, error) {
	answer := func(place int, a Answer, over *Ending) (Standing, bool, error) {
		then, err := g.mail.Answer(ctx, g.at, now.Lease, call, place, a, over)
		return then, true, err
	}
	if call.End != nil {
		if fault := g.faultOf(call.End, now.Places); fault != "" {
			return answer(-1, Answer{Fault: fault}, nil)
		}
		return answer(-1, Answer{}, call.End)
	}
	place, calls := now.Places[call.Agent], g.Calls[call.Agent]
	place = min(place, len(calls))
	if at := slices.IndexFunc(calls[:place], func(a answered) bool { return a.Hash == call.Hash }); at >= 0 {
		return answer(-1, calls[at].Answer, nil)
	}
	if place < len(calls) && calls[place].Hash == call.Hash {
		return answer(place+1, calls[place].Answer, nil)
	}
	if why, unfit := g.unfit[call.ID()]; unfit {
		delete(g.unfit, call.ID())
		return answer(-1, Answer{Fault: why}, nil)
	}
	if place >= g.cfg.MaxCalls {
		return answer(-1, Answer{Fault: fmt.Sprintf("the agent %s has made %d calls, as many as a game may have "+
			"(environment.max_calls); report done or fail", call.Agent, place)}, nil)
	}
	if _, busy := g.pending[call.Agent]; !busy {
		g.Calls[call.Agent] = slices.Clip(calls[:place])
		g.pending[call.Agent] = call
	}
	return now, false, nil
}

// faultOf is what is wrong with an ending.
func (g *game) faultOf(e *Ending, places map[string]int) string {
	if e.Failed != "" {
		return ""
	}
	for _, agent := range slices.Sorted(maps.Keys(e.Rewards)) {
		if !slices.Contains(g.cfg.Agents, agent) {
			return fmt.Sprintf("rewards: %s is none of the run's agents, which are %v", agent, g.cfg.Agents)
		}
	}
	for _, agent := range g.cfg.Agents {
		if _, given := e.Rewards[agent]; !given {
			return fmt.Sprintf("rewards: there is none for the agent %s; send \"reward\" for all alike, or one for each",
				agent)
		}
	}
	if g.turns(places) == 0 {
		return "the run's model has answered nothing in this game, so that there is nothing to learn from; report fail"
	}
	return ""
}

// end leaves of the game what its last program has been answered.
func (g *game) end(places map[string]int) error {
	if g.over.Failed != "" {
		return rollout.Fail(rollout.GameFault, rollout.CodeProgram, fmt.Errorf("the program says: %.300s", g.over.Failed))
	}
	for agent, calls := range g.Calls {
		g.Calls[agent] = slices.Clip(calls[:min(places[agent], len(calls))])
	}
	return nil
}

// Turns is how many of an agent's calls the learner has answered.
func (g *game) Turns(agent string) int { return learned(g.Calls[agent]) }

// turns is how many of its calls the present program has had answered by the learner.
func (g *game) turns(places map[string]int) (n int) {
	for agent, calls := range g.Calls {
		n += learned(calls[:min(places[agent], len(calls))])
	}
	return n
}

func learned(calls []answered) (n int) {
	for _, call := range calls {
		if call.Policy == "" {
			n++
		}
	}
	return n
}

func (g *game) Phase() string {
	n := 1
	for _, calls := range g.Calls {
		n += len(calls)
	}
	return fmt.Sprintf("c%d", n)
}

func (g *game) Done() bool { return g.over != nil }

// Prompts asks what the calls ask.
func (g *game) Prompts() (prompts []episode.Prompt, err error) {
	for _, agent := range slices.Sorted(maps.Keys(g.pending)) {
		c := g.pending[agent]
		prompts = append(prompts, episode.Prompt{Agent: agent, Text: c.Prompt, Messages: c.Chat, Tools: c.Tools,
			Constraint: c.Hold, MaxTokens: c.Most, Stop: c.Stop, Policy: c.Policy})
	}
	return prompts, nil
}

// Answered keeps an answer until Act.
func (g *game) Answered(agent string, c rollout.Completion, why error) {
	if why == nil {
		g.got[agent] = Answer{Text: c.Text, Finish: c.FinishReason, Prompt: len(c.PromptTokenIDs), Tokens: len(c.TokenIDs)}
		return
	}
	if g.unfit == nil {
		g.unfit = map[string]string{}
	}
	call := g.pending[agent]
	g.unfit[call.ID()] = "no engine accepts this: " + why.Error()
}

// Asking says that the game is played: a long answer takes longer than a worker may be silent.
func (g *game) Asking(ctx context.Context) {
	for retry.Pause(ctx, aliveEvery) == nil {
		_ = g.mail.Alive(ctx, g.at.EpisodeRef) // the next time will do
	}
}

// Act makes the answers part of the game; the programs have them once that is saved.
func (g *game) Act(map[string]string) (episode.Outcome, error) {
	var news []rollout.News
	for agent, answer := range g.got {
		call := g.pending[agent]
		g.Calls[agent] = append(g.Calls[agent], answered{call.Hash, call.Policy, answer})
		news = append(news, g.mail.News(g.at.EpisodeRef, g.asked.Lease, call, answer))
	}
	return episode.Outcome{Counts: map[string]int64{"calls": int64(len(g.got))}, News: news}, nil
}

func (g *game) Checkpoint() ([]byte, error) { return json.Marshal(g.played) }

// Result is what the program has reported.
func (g *game) Result() (episode.Result, error) {
	if g.over == nil {
		return episode.Result{}, errors.New("external: the game is not over")
	}
	return episode.Result{Rewards: g.over.Rewards, Truncated: g.over.Truncated}, nil
}
