package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/game/external"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// serverAt starts an API server of its own process, with the address in a configuration.
func (d *deployment) serverAt(file string) *process {
	d.t.Helper()
	cmd := exec.CommandContext(d.ctx, os.Args[0], "-test.run=^TestServerProcess$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), "MILLRACE_TEST_SERVER="+file)
	p := &process{d: d, cmd: cmd, out: &strings.Builder{}, done: make(chan error, 1)}
	cmd.Stdout, cmd.Stderr = p.out, p.out
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	go func() { p.done <- cmd.Wait() }()
	d.t.Cleanup(p.kill)
	return p
}

// generation is what an engine has generated for a run's request.
type generation struct {
	Prompt   []int32
	Tokens   []int32
	Logprobs []float32
}

// generations is an engine's own record of what it has generated for one run, read from its answers.
type generations struct {
	mu  sync.Mutex
	all []generation
}

// recorded puts a record in front of an engine.
func (d *deployment) recorded(engine string, run rollout.RunName) (string, *generations) {
	target, err := url.Parse(engine)
	if err != nil {
		d.t.Fatal(err)
	}
	record := &generations{}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.Request.URL.Path != "/v1/completions" || r.StatusCode != http.StatusOK ||
			!strings.HasPrefix(r.Request.Header.Get("X-Request-Id"), string(run)+"/") {
			return nil
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var answer struct {
			Choices []struct {
				PromptTokenIDs []int32 `json:"prompt_token_ids"`
				TokenIDs       []int32 `json:"token_ids"`
				Logprobs       struct {
					TokenLogprobs []float32 `json:"token_logprobs"`
				} `json:"logprobs"`
			} `json:"choices"`
		}
		if err := json.Unmarshal(body, &answer); err != nil {
			return err
		}
		record.mu.Lock()
		defer record.mu.Unlock()
		for _, c := range answer.Choices {
			record.all = append(record.all, generation{c.PromptTokenIDs, c.TokenIDs, c.Logprobs.TokenLogprobs})
		}
		return nil
	}
	front := httptest.NewServer(proxy)
	d.t.Cleanup(front.Close)
	return front.URL, record
}

func (g *generations) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.all)
}

func (g *generations) has(one generation) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.all, func(other generation) bool {
		return slices.Equal(one.Prompt, other.Prompt) && slices.Equal(one.Tokens, other.Tokens) &&
			slices.Equal(one.Logprobs, other.Logprobs)
	})
}

// program is a client that plays games of a run.
type program struct {
	d      *deployment
	server string
	run    rollout.RunName
}

// leased is the part of a lease that the program reads.
type leased struct {
	Episode  string            `json:"episode"`
	BaseURL  string            `json:"base_url"`
	APIKey   string            `json:"api_key"`
	Model    string            `json:"model"`
	Leased   int               `json:"leased"`
	Scenario external.Scenario `json:"scenario"`
}

// call makes a call, and makes it again while the service is down or says so.
func (p *program) call(url, key string, body any) (status int, answer []byte) {
	p.d.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		p.d.t.Fatal(err)
	}
	p.d.until("an answer of "+url, func() error {
		req, err := http.NewRequestWithContext(p.d.ctx, http.MethodPost, url, bytes.NewReader(text))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		if key != "" {
			req.Header.Set("X-Api-Key", key)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		status = resp.StatusCode
		if answer, err = io.ReadAll(resp.Body); err == nil && status == http.StatusServiceUnavailable {
			err = errors.New(string(answer))
		}
		return err
	})
	return status, answer
}

// lease leases a game; nil: none is open now.
func (p *program) lease(wait string) *leased {
	p.d.t.Helper()
	status, answer := p.call(p.server+"/v1/runs/"+string(p.run)+"/episodes/lease?wait="+wait, "", struct{}{})
	if status == http.StatusNoContent {
		return nil
	}
	var l leased
	if err := json.Unmarshal(answer, &l); err != nil || status != http.StatusOK {
		p.d.t.Errorf("lease: %d %s: %v", status, answer, err)
		return nil
	}
	return &l
}

type fields = map[string]any

// guessTool is a tool of the program's.
var guessTool = fields{"type": "function", "function": fields{"name": "guess", "parameters": fields{"type": "object"}}}

// play makes the calls of a game, so many of them, and returns what was said.
func (p *program) play(l *leased, calls int) (said []string) {
	p.d.t.Helper()
	messages := []fields{{"role": "user", "content": fmt.Sprintf("Guess, game %s.", l.Episode)}}
	for i := range calls {
		status, answer := p.call(l.BaseURL+"/v1/chat/completions", l.APIKey, fields{"model": l.Model, "messages": messages,
			"tools": []fields{guessTool}, "tool_choice": "required", "stream": i%2 == 1})
		message, ok := assistant(answer, i%2 == 1)
		calls, _ := message["tool_calls"].([]any)
		if status != http.StatusOK || !ok || len(calls) != 1 {
			p.d.t.Errorf("call %d: %d %s", i, status, answer)
			return said
		}
		text, _ := json.Marshal(message)
		said = append(said, string(text))
		id := calls[0].(fields)["id"]
		messages = append(messages, message, fields{"role": "tool", "tool_call_id": id, "content": "higher"})
	}
	return said
}

// assistant is the message in an answer, whole or streamed.
func assistant(answer []byte, streamed bool) (message fields, ok bool) {
	type choices struct {
		Choices []struct {
			Message fields `json:"message"`
			Delta   fields `json:"delta"`
		} `json:"choices"`
	}
	var whole choices
	if !streamed {
		ok = json.Unmarshal(answer, &whole) == nil && len(whole.Choices) == 1
		if !ok {
			return nil, false
		}
		return fields{"role": "assistant", "content": whole.Choices[0].Message["content"],
			"tool_calls": whole.Choices[0].Message["tool_calls"]}, true
	}
	message = fields{"role": "assistant", "content": nil}
	for line := range strings.SplitSeq(string(answer), "\n") {
		data, is := strings.CutPrefix(line, "data: ")
		if !is || data == "[DONE]" {
			ok = ok || data == "[DONE]"
			continue
		}
		var part choices
		if json.Unmarshal([]byte(data), &part) != nil || len(part.Choices) != 1 {
			return nil, false
		}
		if calls, has := part.Choices[0].Delta["tool_calls"].([]any); has {
			delete(calls[0].(fields), "index")
			message["tool_calls"] = calls
		}
	}
	return message, ok
}

func (p *program) done(l *leased, reward float64) {
	p.d.t.Helper()
	if status, answer := p.call(l.BaseURL+"/done", l.APIKey, fields{"reward": reward}); status != http.StatusOK {
		p.d.t.Errorf("done: %d %s", status, answer)
	}
}

// Programs play over servers and workers that are killed. All games end; what engines generate is generated once, and
// is what the trainer gets, token by token. The game of a program that dies is played by another one, from its start
// and with the same answers.
func TestProgramsPlayThroughDeaths(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	run := rollout.RunName("outside")
	engine, record := d.recorded(d.engine(1), run)
	d.write("engines", engine+" id=recorded\n")
	service, err := os.ReadFile(filepath.Join(d.dir, "service.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	d.write("other.yaml", strings.Replace(string(service), "listen: "+d.cfg.Listen, "listen: "+address, 1))
	other := d.serverAt(filepath.Join(d.dir, "other.yaml"))
	first := d.worker()

	const samples, groups, calls = 3, 2, 4
	spec := d.spec(run, servedModel, 1)
	spec.Environment = runspec.Environment{Kind: external.Kind, Options: json.RawMessage(`{"lease": "3s"}`)}
	spec.Group = runspec.GroupSpec{Samples: samples, MinSamples: samples}
	spec.Buffer.Depth, spec.Buffer.GroupsPerStep = 1, groups
	spec.Sampling.MaxTokens = 200
	spec.Timeouts.Heartbeat = rollout.Duration(5 * time.Second)
	d.start(spec)

	p := &program{d: d, server: "http://" + address, run: run}
	dying := p.lease("60s")
	if dying == nil {
		t.Fatal("no game was open")
	}
	before := p.play(dying, calls-1) // and says nothing any more

	var players sync.WaitGroup
	var mu sync.Mutex
	games, taken := map[string]int{}, 0
	ctx, enough := context.WithCancel(d.ctx)
	defer enough()
	for range 3 {
		players.Go(func() {
			for ctx.Err() == nil {
				l := p.lease("1s")
				if l == nil {
					continue
				}
				said := p.play(l, calls)
				if l.Episode == dying.Episode && len(said) == calls && !slices.Equal(said[:len(before)], before) {
					t.Errorf("the game of the program that died: said %q, before %q", said, before)
				}
				p.done(l, float64(len(l.Episode)+int(l.APIKey[3]))/100)
				mu.Lock()
				games[l.Episode]++
				taken = max(taken, l.Leased)
				if len(games) == samples*groups {
					enough()
				}
				mu.Unlock()
			}
		})
	}
	d.until("calls under way", func() error {
		if n := record.count(); n < calls+2 {
			return fmt.Errorf("%d were generated", n)
		}
		return nil
	})
	other.kill()
	d.serverAt(filepath.Join(d.dir, "other.yaml"))
	first.kill()
	d.worker()
	players.Wait()
	if games[dying.Episode] != 1 || taken < 2 {
		t.Errorf("games: %v; leased %d times at most", games, taken)
	}

	var batch struct {
		Groups []struct {
			Trajectories []rollout.Trajectory `json:"trajectories"`
		} `json:"groups"`
	}
	d.until("the batch", func() error {
		status, answer := p.call("http://"+d.cfg.Listen+"/v1/runs/outside/steps/0/claim?wait=5s", "", struct{}{})
		if status != http.StatusOK {
			return fmt.Errorf("%d %s", status, answer)
		}
		return json.Unmarshal(answer, &batch)
	})
	turns := 0
	for _, g := range batch.Groups {
		for _, trajectory := range g.Trajectories {
			if len(trajectory.Turns) != calls {
				t.Errorf("%s has %d turns, want %d", trajectory.ID, len(trajectory.Turns), calls)
			}
			for i, turn := range trajectory.Turns {
				if turns++; !record.has(generation{turn.PromptTokenIDs, turn.TokenIDs, turn.Logprobs}) {
					t.Errorf("%s turn %d is not what the engine has generated", trajectory.ID, i)
				}
			}
		}
	}
	if want := samples * groups * calls; turns != want {
		t.Errorf("%d turns, want %d", turns, want)
	}
	// What an engine was generating when its worker was killed is lost, and generated again: at most one call a game.
	if n := record.count(); n < turns || n > turns+samples*groups {
		t.Errorf("the engine has generated %d answers for %d turns", n, turns)
	}
}
