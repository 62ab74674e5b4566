package savedgame

import (
	"cmp"
	"context"
	"slices"

	"github.com/millrace/millrace/internal/game/gamelist"
	"github.com/millrace/millrace/internal/rollout"
)

// Turns lists the turns of a game that is kept.
func (r *Reader) Turns(ctx context.Context, ref rollout.EpisodeRef) (gamelist.Turns, error) {
	ep, err := r.episode(ctx, ref)
	if err != nil {
		return gamelist.Turns{}, err
	}
	out := gamelist.Turns{Game: ref.String(), Agents: []gamelist.AgentView{}, Turns: []gamelist.TurnView{}}
	for i := range ep.Trajectories {
		t := &ep.Trajectories[i]
		out.Agents = append(out.Agents, gamelist.AgentView{Agent: t.Agent, Turns: len(t.Turns), Reward: t.Reward,
			Advantage: t.Advantage, Truncated: t.Truncated})
	}
	for n, p := range inOrder(ep.Trajectories) {
		out.Turns = append(out.Turns, view(n, p))
	}
	return out, nil
}

// Turn is the n-th turn of a game that is kept.
func (r *Reader) Turn(ctx context.Context, ref rollout.EpisodeRef, n int) (gamelist.Turn, error) {
	ep, err := r.episode(ctx, ref)
	if err != nil {
		return gamelist.Turn{}, err
	}
	turns := inOrder(ep.Trajectories)
	if n < 0 || n >= len(turns) {
		if len(turns) == 0 {
			return gamelist.Turn{}, rollout.Refuse(rollout.NotRetained, "game %s has no turns yet", ref)
		}
		return gamelist.Turn{}, rollout.Refuse(rollout.NotRetained, "game %s has no turn %d; it has those from 0 to %d",
			ref, n, len(turns)-1)
	}
	of := turns[n]
	out := gamelist.Turn{TurnView: view(n, of), Game: ref.String(), Turns: len(turns), PromptTokenIDs: of.PromptTokenIDs,
		Sampled: make([]gamelist.Token, len(of.TokenIDs))}
	for i, id := range of.TokenIDs {
		out.Sampled[i] = gamelist.Token{ID: id, Logprob: of.Logprobs[i]}
	}
	r.addText(ctx, ref.Run, &out)
	return out, nil
}

// episode reads a game's turns, or says why they are not kept.
func (r *Reader) episode(ctx context.Context, ref rollout.EpisodeRef) (rollout.Episode, error) {
	if _, err := r.Buffer.Status(ctx, ref.Run); err != nil {
		return rollout.Episode{}, err
	}
	ep, err := r.Buffer.EpisodeTurns(ctx, ref)
	if rollout.Refused(err, rollout.NotRetained) {
		return ep, r.notKept(ctx, ref, err)
	}
	return ep, err
}

// agentTurn is a turn and whose it is.
type agentTurn struct {
	*rollout.Turn
	agent string
}

func view(n int, t agentTurn) gamelist.TurnView {
	var sum float64
	for _, p := range t.Logprobs {
		sum += float64(p)
	}
	v := gamelist.TurnView{Turn: n, Phase: t.Phase, Agent: t.agent, PolicyVersion: t.PolicyVersion, Engine: t.Engine,
		FinishReason: t.FinishReason, PromptTokens: len(t.PromptTokenIDs), Tokens: len(t.TokenIDs),
		MeanLogprob: sum / float64(max(1, len(t.Logprobs))), Reward: t.Reward, Text: t.Text}
	if t.Timing.Attempts > 0 {
		v.Timing = &t.Timing
	}
	return v
}

// inOrder lists the turns of a game's agents in the order of its phases. Phases have names only: their order follows
// from the agents' own, and an agent may have sat out a phase.
func inOrder(trajectories []rollout.Trajectory) []agentTurn {
	phases := []string{}
	for i := range trajectories {
		at := 0 // where the next phase that is not known yet belongs
		for k := range trajectories[i].Turns {
			name := trajectories[i].Turns[k].Phase
			if found := slices.Index(phases, name); found >= 0 {
				at = found + 1
				continue
			}
			phases = slices.Insert(phases, at, name)
			at++
		}
	}
	count, number := 0, map[string]int{}
	for i, name := range phases {
		number[name] = i
	}
	var turns []agentTurn
	for i := range trajectories {
		count += len(trajectories[i].Turns)
		for k := range trajectories[i].Turns {
			turns = append(turns, agentTurn{&trajectories[i].Turns[k], trajectories[i].Agent})
		}
	}
	if len(trajectories) > 1 && len(phases) == count {
		return byTurns(trajectories)
	}
	slices.SortStableFunc(turns, func(a, b agentTurn) int { return number[a.Phase] - number[b.Phase] })
	return turns
}

// byTurns lists the turns of agents of whom no two decide in one phase, as where they move by turns: each one's first,
// then each agent's second. Who has more of them, or else began with less to read, began.
func byTurns(trajectories []rollout.Trajectory) []agentTurn {
	order := slices.Clone(trajectories)
	first := func(t rollout.Trajectory) int {
		if len(t.Turns) == 0 {
			return 0
		}
		return len(t.Turns[0].PromptTokenIDs)
	}
	slices.SortStableFunc(order, func(a, b rollout.Trajectory) int {
		return cmp.Or(len(b.Turns)-len(a.Turns), first(a)-first(b))
	})
	var turns []agentTurn
	for k := 0; len(order) > 0 && k < len(order[0].Turns); k++ {
		for i := range order {
			if k < len(order[i].Turns) {
				turns = append(turns, agentTurn{&order[i].Turns[k], order[i].Agent})
			}
		}
	}
	return turns
}
