package api

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace/millrace/internal/face/dialect"
	"github.com/millrace/millrace/internal/game/external"
	"github.com/millrace/millrace/internal/kit/cache"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/store/mailbox"
)

// Programs that play games of a run lease them by a huma operation. Then they speak a dialect of their own, with a key
// that is good for their game alone, and are answered before the fence.

// LeasedGame is a game that a program may play.
type LeasedGame struct {
	Episode  string            `json:"episode" doc:"Its name in paths"`
	BaseURL  string            `json:"base_url" doc:"For Anthropic's clients; done, fail and heartbeat are below it"`
	OpenAI   string            `json:"openai_base_url" doc:"For OpenAI's clients"`
	APIKey   string            `json:"api_key" doc:"Good for this game alone, until the lease ends"`
	Model    string            `json:"model" doc:"What to send as model; the name of one of the run's policies has that one answer"`
	Agents   []string          `json:"agents" doc:"With several, each one's calls go below base_url/agents/NAME"`
	Scenario external.Scenario `json:"scenario"`
	Leased   int64             `json:"leased" doc:"How often the game was leased, this time included"`
	LeaseSec float64           `json:"lease_seconds" doc:"How long the program may be silent"`
	MaxSec   float64           `json:"episode_seconds" doc:"How long a game may take, time in queues left out"`
}

// leasePatience is how long a server waits for a game when the program does not say.
const leasePatience = 30 * time.Second

func (s *Server) registerPrograms() {
	lease := s.operation("lease-game")
	lease.Responses["200"] = &huma.Response{Description: "A game", Content: map[string]*huma.MediaType{
		"application/json": {Schema: schemaOf[LeasedGame](s)}}}
	lease.Responses["204"] = &huma.Response{Description: "None is open; ask again"}
	huma.Register(s.api, lease, s.lease)
	for _, id := range []string{"chat-in-game", "message-in-game", "live-in-game", "end-game", "fail-game"} {
		op := s.operation(id)
		op.Parameters = []*huma.Param{
			{Name: "run", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}},
			{Name: "episode", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}},
		}
		op.Responses = map[string]*huma.Response{"200": {Description: "As the dialect has it"}}
		s.api.OpenAPI().AddOperation(&op)
	}
}

type leaseInput struct {
	RunPath
	Wait string `query:"wait" doc:"How long to wait for a game: 30s, or seconds; the server may wait for less"`
	from string
}

// Resolve notes by which address the program reached the server: it is that of its game, too.
func (in *leaseInput) Resolve(hc huma.Context) []error {
	scheme := "http"
	if hc.TLS() != nil || hc.Header("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	in.from = scheme + "://" + hc.Host()
	return in.RunPath.Resolve(hc)
}

func (s *Server) lease(ctx context.Context, in *leaseInput) (*claimOutput, error) {
	wait, err := parseWait(in.Wait)
	if err != nil {
		return nil, err
	}
	if in.Wait == "" {
		wait = leasePatience
	}
	leave, refused := s.gates.enter(ctx, "waiting", in.Run)
	if refused != nil {
		return nil, refused
	}
	defer leave()
	waiting, stop := s.untilStopped(ctx)
	defer stop()
	waiting, cancel := context.WithTimeout(waiting, min(wait, s.bounds().MaxWait))
	defer cancel()
	run, key := rollout.RunName(in.Run), "mr-"+rand.Text()
	var game *LeasedGame
	look := func() (more bool, err error) {
		game, err = s.leaseOne(context.WithoutCancel(ctx), run, key, in.from)
		return game == nil, err
	}
	if err := s.deps.Mail.AwaitOpen(waiting, run, look); err != nil && waiting.Err() == nil {
		return nil, s.fail(ctx, "lease a game", err)
	}
	return &claimOutput{func(hc huma.Context) {
		if game == nil {
			hc.SetStatus(http.StatusNoContent)
			return
		}
		hc.SetHeader("Content-Type", "application/json")
		_ = json.NewEncoder(hc.BodyWriter()).Encode(game) // a program that has gone loses its lease
	}}, nil
}

func (s *Server) leaseOne(ctx context.Context, run rollout.RunName, key, from string) (*LeasedGame, error) {
	p, err := s.played(ctx, run)
	if err != nil {
		return nil, err
	}
	spec, cfg := p.spec, p.cfg
	leased, err := s.deps.Mail.Lease(ctx, run, leaseOf(key), cfg.Lease.Std())
	if leased == nil || err != nil {
		return nil, err
	}
	name := mailbox.Name(leased.Ref)
	game := &LeasedGame{Episode: name, APIKey: key, Model: spec.Model, Agents: cfg.Agents, Leased: leased.Times,
		BaseURL:  from + runsPath + string(run) + "/episodes/" + name,
		LeaseSec: cfg.Lease.Std().Seconds(), MaxSec: spec.Timeouts.Episode.Seconds()}
	game.OpenAI = game.BaseURL + "/v1"
	return game, json.Unmarshal(leased.Scenario, &game.Scenario)
}

// played is a run that programs play.
type played struct {
	spec *runspec.Spec
	cfg  *external.Config
}

func (s *Server) played(ctx context.Context, run rollout.RunName) (p played, err error) {
	status, err := s.deps.Store.Status(ctx, run)
	if err != nil {
		return p, err
	}
	p.spec = &status.Spec
	if kind := p.spec.Environment.Kind; kind != external.Kind {
		return p, rollout.Refuse(rollout.Invalid, "the run's games are of kind %s, and no program "+
			"plays them; programs play where environment.kind is %s", kind, external.Kind)
	}
	if status.State.Over() {
		return p, rollout.Refuse(rollout.RunOver, "the run is %s: there is nothing more to play",
			status.State)
	}
	cfg, err := external.ReadConfig(p.spec.Environment.Options)
	p.cfg = &cfg
	return p, err
}

// leaseOf is what the service keeps of a key.
func leaseOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}

// programCall is a call of a program that has leased a game.
type programCall struct {
	s       *Server
	w       http.ResponseWriter
	r       *http.Request
	run     rollout.RunName
	episode string
	agent   string
	rest    string // of the path
	dialect *dialect.Dialect
}

// answerPrograms answers what is sent to the address of a leased game.
func (s *Server) answerPrograms(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts := strings.SplitN(strings.TrimPrefix(r.URL.Path, runsPath), "/", 4)
		if !strings.HasPrefix(r.URL.Path, runsPath) || len(parts) < 4 || parts[1] != "episodes" {
			next.ServeHTTP(w, r)
			return
		}
		c := &programCall{s: s, w: w, r: r, run: rollout.RunName(parts[0]), episode: parts[2], rest: "/" + parts[3],
			dialect: dialect.All[0]}
		if named, ok := strings.CutPrefix(c.rest, "/agents/"); ok {
			c.agent, c.rest, _ = strings.Cut(named, "/")
			c.rest = "/" + c.rest
		}
		for _, d := range dialect.All {
			if c.rest == d.Path {
				c.dialect = d
			}
		}
		if fault := c.answer(); fault != nil {
			if fault.status == http.StatusServiceUnavailable {
				w.Header().Set("Retry-After", "1")
			}
			c.dialect.Fault(w, fault.status, fault.text, requestID(r.Context()))
		}
	})
}

// programFault is an answer that is none.
type programFault struct {
	status int
	text   string
}

func badCall(text string) *programFault { return &programFault{http.StatusBadRequest, text} }

// answer answers the call, or returns why not.
func (c *programCall) answer() *programFault {
	if c.r.Method != post {
		return &programFault{http.StatusMethodNotAllowed, "use POST"}
	}
	key := c.r.Header.Get("X-Api-Key")
	if bearer, ok := strings.CutPrefix(c.r.Header.Get("Authorization"), "Bearer "); ok {
		key = bearer
	}
	lease := leaseOf(key)
	ending := c.rest == "/done" || c.rest == "/fail"
	ref, err := c.leased(lease)
	switch {
	case errors.Is(err, mailbox.ErrOver) && ending, errors.Is(err, mailbox.ErrAbsent):
	case err != nil:
		return c.stranger(err)
	}
	if connection := connectionOf(c.r.Context()); connection != nil {
		connection.welcome()
	}
	p, err := c.s.playing.Of(c.r.Context(), ref.Run, cache.Younger[played](specKnownFor),
		func(ctx context.Context) (played, error) { return c.s.played(ctx, ref.Run) })
	if err != nil {
		return c.faultOf(err)
	}
	spec, cfg := p.spec, p.cfg
	body, refused := c.s.bodyOf(c.w, c.r)
	if refused != nil {
		return &programFault{refused.Status, refused.Detail}
	}
	var call external.Call
	var asked *dialect.Asked
	switch {
	case c.rest == "/heartbeat":
		return c.write(struct{}{})
	case ending:
		if call, err = readEnding(c.rest, body, cfg); err != nil {
			return badCall(err.Error())
		}
	case c.rest == c.dialect.Path:
		var fault *programFault
		if asked, fault = c.read(body, spec, cfg); fault != nil {
			return fault
		}
		if c.dialect.Count {
			return c.count(spec, asked)
		}
		call = asked.Call
	default:
		return &programFault{http.StatusNotFound, fmt.Sprintf("there is nothing at %s; a program calls v1/chat/completions, "+
			"v1/completions, v1/responses, v1/messages, heartbeat, done and fail", c.rest)}
	}
	answer, err := c.await(ref, lease, call)
	switch {
	case err != nil:
		return c.faultOf(err)
	case answer.Fault != "":
		return badCall(answer.Fault)
	case asked == nil:
		return c.write(struct{}{})
	}
	c.dialect.Answer(c.w, asked, *answer)
	return nil
}

func (c *programCall) write(v any) *programFault {
	c.w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(c.w).Encode(v) // a client that has gone needs no answer
	return nil
}

// For how long a server goes by what it knows of a lease and of a run's spec before it asks again. A call that is
// posted asks for itself whether its lease goes on.
const (
	leaseKnownFor = 10 * time.Second
	specKnownFor  = time.Second
	keptLeases    = 1 << 14
)

// leaseKey is what a program says of its lease.
type leaseKey struct {
	run            rollout.RunName
	episode, lease string
}

// leased is which game the call belongs to, as game says it. A heartbeat posts nothing else, so it always asks.
func (c *programCall) leased(lease string) (rollout.EpisodeRef, error) {
	ctx := c.r.Context()
	if c.rest == "/heartbeat" {
		return c.game(ctx, lease)
	}
	return c.s.leases.Of(ctx, leaseKey{c.run, c.episode, lease}, cache.Younger[rollout.EpisodeRef](leaseKnownFor),
		func(ctx context.Context) (rollout.EpisodeRef, error) { return c.game(ctx, lease) })
}

// game is which game the call belongs to, if the lease is that game's, which goes on. Without it nobody is told which
// runs there are.
func (c *programCall) game(ctx context.Context, lease string) (ref rollout.EpisodeRef, err error) {
	if c.s.deps.Mail == nil {
		return ref, rollout.Refuse(rollout.Unavailable, "no program plays here")
	}
	if c.run.ValidateID() != nil {
		return ref, mailbox.ErrEnded
	}
	run, err := c.s.deps.Store.ID(ctx, c.run)
	if rollout.Refused(err, rollout.NoSuchRun) {
		return ref, mailbox.ErrEnded
	}
	if err != nil {
		return ref, err
	}
	if ref, err = mailbox.ReadName(run, c.episode); err != nil {
		return ref, mailbox.ErrEnded
	}
	_, err = c.post(ctx, ref, lease, external.Call{})
	return ref, err
}

// post posts a call. A game that no worker plays may be one whose group does without it, or was dropped: it is over.
func (c *programCall) post(ctx context.Context, ref rollout.EpisodeRef, lease string, call external.Call) (
	*external.Answer, error) {
	answer, err := c.s.deps.Mail.Post(ctx, ref, lease, call)
	if errors.Is(err, mailbox.ErrAbsent) {
		if inPlay, failed := c.s.deps.Store.InPlay(ctx, ref.GroupRef); failed == nil && !inPlay {
			return nil, fmt.Errorf("%w: its group is complete, or was dropped", mailbox.ErrOver)
		}
	}
	return answer, err
}

// stranger answers who has no lease, and not too often.
func (c *programCall) stranger(err error) *programFault {
	if !errors.Is(err, mailbox.ErrEnded) {
		return c.faultOf(err)
	}
	if wait := c.s.unauthenticated.take(callOf(c.r.Context()).address, c.s.deps.Now()); wait > 0 {
		c.w.Header().Set("Retry-After", strconv.Itoa(int(wait.Seconds())+1))
		return &programFault{http.StatusTooManyRequests, "too many calls without a valid key from this address"}
	}
	return c.faultOf(err)
}

// read understands a call of the model.
func (c *programCall) read(body []byte, spec *runspec.Spec, cfg *external.Config) (*dialect.Asked, *programFault) {
	asked, err := c.dialect.Read(body)
	if err != nil {
		return nil, badCall(err.Error())
	}
	asked.Agent = c.agent
	if c.agent == "" && len(cfg.Agents) == 1 {
		asked.Agent = cfg.Agents[0]
	}
	if !slices.Contains(cfg.Agents, asked.Agent) {
		return nil, &programFault{http.StatusNotFound, fmt.Sprintf("the agent %q is none of the run's, which are %v; call "+
			"base_url/agents/NAME%s", c.agent, cfg.Agents, c.dialect.Path)}
	}
	for _, p := range spec.Policies {
		if p.Name == asked.Model {
			asked.Policy = p.Name
		}
	}
	if asked.Policy == "" && asked.Model != spec.Model {
		return nil, &programFault{http.StatusNotFound, fmt.Sprintf("model %q: the run plays %q; send that, or the name "+
			"of one of its policies", asked.Model, spec.Model)}
	}
	if most := spec.Sampling.MaxTokens; asked.Most > most && !c.dialect.Count {
		return nil, badCall(fmt.Sprintf("max_tokens: %d is more than the run's sampling.max_tokens, which is %d", asked.Most,
			most))
	}
	return asked, nil
}

func (c *programCall) count(spec *runspec.Spec, asked *dialect.Asked) *programFault {
	if c.s.deps.CountTokens == nil {
		return &programFault{http.StatusServiceUnavailable, "this server reaches no engine that could count"}
	}
	n, err := c.s.deps.CountTokens(c.r.Context(), rollout.Request{Model: spec.Model, Messages: asked.Chat,
		Tools: asked.Tools})
	if err != nil {
		return c.faultOf(err)
	}
	c.dialect.Counted(c.w, n)
	return nil
}

// readEnding reads the report of a game's end.
func readEnding(path string, body []byte, cfg *external.Config) (external.Call, error) {
	var in struct {
		Reward    *float64           `json:"reward"`
		Rewards   map[string]float64 `json:"rewards"`
		Truncated bool               `json:"truncated"`
		Reason    string             `json:"reason"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return external.Call{}, errors.New(`the body is none of {"reward": 0.5}, {"rewards": {"AGENT": 0.5}} and, for fail, ` +
			`{"reason": "..."}`)
	}
	sum := sha256.Sum256(append([]byte(path), body...))
	call := external.Call{Hash: hex.EncodeToString(sum[:12])}
	call.End = &external.Ending{Rewards: in.Rewards, Truncated: in.Truncated, Hash: call.Hash}
	switch {
	case path == "/fail":
		call.End.Rewards, call.End.Failed = nil, in.Reason
		if in.Reason == "" {
			return call, errors.New(`reason: is missing; say why the game failed: {"reason": "..."}`)
		}
	case in.Reward != nil && in.Rewards != nil:
		return call, errors.New("reward and rewards: send one of them")
	case in.Reward != nil:
		call.End.Rewards = map[string]float64{}
		for _, agent := range cfg.Agents {
			call.End.Rewards[agent] = *in.Reward
		}
	}
	return call, nil
}

// Bounds of the wait for an answer. A call that is sent again goes on waiting.
const (
	answerPatience = 10 * time.Minute
	absentPatience = 2 * time.Minute // without a worker that plays the game
)

// await puts the call into the game's mail, and waits for its answer.
func (c *programCall) await(ref rollout.EpisodeRef, lease string, call external.Call) (*external.Answer, error) {
	ctx, leave := c.s.untilStopped(c.r.Context())
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	began := time.Now()
	return c.s.deps.Mail.AwaitAnswer(ctx, ref, lease, call, func() (*external.Answer, error) {
		answer, err := c.post(ctx, ref, lease, call)
		call.Posted = true // or it is not known there, and sent whole again
		if errors.Is(err, mailbox.ErrAbsent) && time.Since(began) < absentPatience {
			return nil, nil
		}
		return answer, err
	})
}

// faultOf is an error in words for a program.
func (c *programCall) faultOf(err error) *programFault {
	var refused *rollout.Refusal
	again := "; lease another one: POST " + runsPath + string(c.run.Plain()) + "/episodes/lease"
	switch {
	case errors.Is(err, mailbox.ErrEnded):
		return &programFault{http.StatusGone, "the key is not that of this game's lease, or the lease has ended because " +
			"the program was silent for longer than environment.lease" + again}
	case errors.Is(err, mailbox.ErrOver):
		return &programFault{http.StatusGone, err.Error() + again}
	case errors.Is(err, mailbox.ErrAbsent):
		return &programFault{http.StatusServiceUnavailable, err.Error() + ": its worker or its group may be gone; ask " +
			"again, or lease another one"}
	case errors.As(err, &refused) && refused.Code != rollout.Unavailable:
		return &programFault{kinds[refused.Code].status, refused.Text}
	}
	c.s.log(c.r.Context(), slog.LevelWarn, "answer a program", err)
	return &programFault{http.StatusServiceUnavailable, "the call is not answered yet; send the same again"}
}
