// Package outside is what users bring: a program that plays games of kind external, and an environment of kind openenv.
// The program is as bad as programs are, and writes down what it was answered. Start reading at Program.Play.
package outside

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/kit/retry"
)

// Agents are the learners of a game.
var Agents = []string{"a", "b"}

// Calls is how many calls an agent makes in a game, whichever program plays it.
func Calls(episode, agent string) int { return 2 + int(hash(episode, agent)%3) }

// Reward is what an agent's answers are worth.
func Reward(answers []string) float64 { return float64(hash(answers...)%1_000_000) / 1_000_000 }

func hash(texts ...string) uint64 {
	h := fnv.New64a()
	for _, text := range texts {
		fmt.Fprintf(h, "%q", text)
	}
	return h.Sum64()
}

// Line is what a program writes down: a call that was answered, or something that must not be.
type Line struct {
	Trajectory string    `json:"trajectory"`
	Call       int       `json:"call"` // of the trajectory, from 0
	Answer     string    `json:"answer,omitempty"`
	At         time.Time `json:"at"`
	Since      time.Time `json:"since"` // of the game's lease
	// Wayward says that something else was asked at a call's place: what was answered there before is void.
	Wayward bool   `json:"wayward,omitempty"`
	Broken  string `json:"broken,omitempty"` // a promise that was not kept
}

// Program plays games of a run until the run is over.
type Program struct {
	Server, Run, Journal string

	journal *os.File
}

const (
	players  = 6                // games that a program plays at once
	patience = 15 * time.Second // with one call, until it is sent again
	pause    = 200 * time.Millisecond
)

// Play plays until the run is over or gone.
func (p *Program) Play(ctx context.Context) (err error) {
	p.journal, err = os.OpenFile(p.Journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer p.journal.Close()
	var all sync.WaitGroup
	for range players {
		all.Go(func() {
			var before *game
			for {
				g, over := p.lease(ctx)
				if over {
					return
				}
				if g != nil {
					g.play(ctx, before)
					before = g
				}
			}
		})
	}
	all.Wait()
	return ctx.Err()
}

// note writes a line down, in one piece beside those of other programs.
func (p *Program) note(line Line) {
	line.At = time.Now()
	text, err := json.Marshal(line)
	if err == nil {
		_, err = p.journal.Write(append(text, '\n'))
	}
	if err != nil {
		panic(err) // a program that cannot write down what it saw proves nothing
	}
}

// game is one that was leased.
type game struct {
	p       *Program
	since   time.Time
	Episode string `json:"episode"`
	URL     string `json:"base_url"`
	Key     string `json:"api_key"`
	Model   string `json:"model"`
}

// lease leases a game; nil: there is none at the moment.
func (p *Program) lease(ctx context.Context) (g *game, over bool) {
	status, body, err := post(ctx, p.Server+"/v1/runs/"+p.Run+"/episodes/lease?wait=5s", "", fields{})
	g = &game{p: p, since: time.Now()}
	switch {
	case ctx.Err() != nil, status == http.StatusGone, status == http.StatusNotFound:
		return nil, true
	case err == nil && status == http.StatusOK && json.Unmarshal(body, g) == nil:
		return g, false
	case status != http.StatusNoContent:
		_ = retry.Pause(ctx, pause) // whether it was cut short is asked above
	}
	return nil, false
}

type fields = map[string]any

func post(ctx context.Context, url, key string, body any) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	text, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(text))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("X-Api-Key", key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// until posts the same again until it is answered by a service that is not in trouble.
func (g *game) until(ctx context.Context, path string, body fields) (status int, answer []byte) {
	for ctx.Err() == nil {
		status, answer, err := post(ctx, g.URL+path, g.Key, body)
		if err == nil && status < http.StatusInternalServerError && status != http.StatusTooManyRequests {
			return status, answer
		}
		_ = retry.Pause(ctx, pause)
	}
	return 0, nil
}

// What a program may do with a game, instead of playing it to its end. It is drawn from all below honest.
const (
	fails   = iota // says that the game failed
	silent         // is not heard of any more after its first calls
	wayward        // asks something else instead of its last call, and is silent then
	twice          // plays it twice at once, with one lease
	honest  = 16
)

func (g *game) play(ctx context.Context, before *game) {
	how := rand.IntN(honest) // what is promised holds for all that programs do, whatever the seed
	times := 1
	if how == twice {
		times = 2
	}
	said := make([][]string, len(Agents)*times)
	var all sync.WaitGroup
	for i := range said {
		all.Go(func() { said[i] = g.talk(ctx, Agents[i%len(Agents)], how) })
	}
	all.Wait()
	rewards := fields{}
	for i, answers := range said {
		if answers == nil {
			return // another program has the game, or nobody has
		}
		rewards[Agents[i%len(Agents)]] = Reward(answers)
	}
	if how == fails {
		g.until(ctx, "/fail", fields{"reason": "the program fails, as programs do"})
		return
	}
	g.lie(ctx, rewards, before)
	if status, _ := g.until(ctx, "/done", fields{"rewards": rewards}); status == http.StatusOK {
		g.lieAfterwards(ctx, rewards)
	}
}

// talk makes an agent's calls and returns the answers; nil: not all of them.
func (g *game) talk(ctx context.Context, agent string, how int) (said []string) {
	_, id, _ := strings.Cut(g.URL, "/v1/runs/") // the run's own name, whichever life it is in
	run, _, _ := strings.Cut(id, "/")
	line := Line{Since: g.since, Trajectory: run + "/" + strings.Replace(g.Episode, "-", "/", 1) + "/" + agent}
	var messages []fields
	for n := Calls(g.Episode, agent); line.Call < n; line.Call++ {
		question := fmt.Sprintf("Game %s, agent %s: call %d.", g.Episode, agent, line.Call)
		if how == wayward && line.Call == n-1 {
			line.Wayward = true
			g.p.note(line)
			question += " And something else."
		}
		messages = append(messages, fields{"role": "user", "content": question})
		answer, ok := g.call(ctx, agent, fields{"model": g.Model, "messages": messages})
		if !ok || line.Wayward || how == silent && line.Call == 1 {
			return nil
		}
		line.Answer = answer
		g.p.note(line)
		said = append(said, answer)
		messages = append(messages, fields{"role": "assistant", "content": answer})
	}
	return said
}

const chat = "/v1/chat/completions"

func (g *game) call(ctx context.Context, agent string, body fields) (answer string, ok bool) {
	status, text := g.until(ctx, "/agents/"+agent+chat, body)
	var said struct {
		Choices []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
	}
	if status != http.StatusOK || json.Unmarshal(text, &said) != nil || len(said.Choices) != 1 {
		return "", false
	}
	return said.Choices[0].Message.Content, true
}

// lie sends what no game may be harmed by.
func (g *game) lie(ctx context.Context, rewards fields, before *game) {
	question := []fields{{"role": "user", "content": "?"}}
	g.refused(ctx, g.URL+"/done", fields{"rewards": fields{Agents[0]: 1, Agents[1]: 1, "nobody": 1}})
	g.refused(ctx, g.URL+"/done", fields{"rewards": fields{Agents[0]: 1}})
	g.refused(ctx, g.URL+"/agents/nobody"+chat, fields{"model": g.Model, "messages": question})
	g.refused(ctx, g.URL+"/agents/a"+chat, fields{"model": "another", "messages": question})
	g.refused(ctx, g.URL+"/agents/a"+chat, fields{"model": g.Model, "messages": question, "max_tokens": 1000})
	if before != nil && before.URL != g.URL {
		g.refused(ctx, before.URL+"/done", fields{"rewards": rewards})
	}
}

// lieAfterwards goes on with a game that is over.
func (g *game) lieAfterwards(ctx context.Context, rewards fields) {
	g.refused(ctx, g.URL+"/done", fields{"reward": 99})
	g.refused(ctx, g.URL+"/fail", fields{"reason": "it was not over"})
	question := []fields{{"role": "user", "content": "?"}}
	g.refused(ctx, g.URL+"/agents/a"+chat, fields{"model": g.Model, "messages": question})
}

// refused sends what must be refused.
func (g *game) refused(ctx context.Context, url string, body fields) {
	if status, answer, err := post(ctx, url, g.Key, body); err == nil && status < http.StatusBadRequest {
		g.p.note(Line{Since: g.since, Broken: fmt.Sprintf("%s takes %v: %d %.200s", url, body, status, answer)})
	}
}
