package crashtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// recorder stands between the workers and the engines and remembers what each engine answered to which request. What
// the service says of a turn is checked against it.
type recorder struct {
	mu      sync.Mutex
	models  map[sampleKey]answered     // what answered with exactly these tokens
	loaded  map[engineAdapter]string   // digest of the weights that an engine last loaded under a name
	weights map[string]map[string]bool // digests of the weights with which an adapter's name answered
	answers map[string][]time.Time     // by episode
	engines map[int][]time.Time        // answers by engine
	aborts  []abort
	tokens  map[string]int64        // generated so far, by turn
	made    map[string][]generation // by trajectory
	again   int64                   // tokens generated for a turn that had an answer
	total   int64
	flying  int // requests under way
	servers []*http.Server
}

// engineAdapter is an adapter's name on an engine.
type engineAdapter struct {
	engine int
	name   string
}

// sampleKey is one sample of one trajectory.
type sampleKey struct {
	trajectory string
	sample     [sha256.Size]byte
}

// abort is a request whose caller went away before the answer.
type abort struct {
	episode   string
	begun, at time.Time
}

func newRecorder() *recorder {
	return &recorder{
		models: map[sampleKey]answered{}, loaded: map[engineAdapter]string{}, weights: map[string]map[string]bool{},
		answers: map[string][]time.Time{}, engines: map[int][]time.Time{}, tokens: map[string]int64{},
		made: map[string][]generation{},
	}
}

// serve puts the recorder in front of one engine and answers its own address.
func (r *recorder) serve(engine int, target string) (string, error) {
	return r.serveAt("127.0.0.1:0", engine, target)
}

// serveAt is serve at an address of one's choice.
func (r *recorder) serveAt(address string, engine int, target string) (string, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return "", fmt.Errorf("listen before engine %d: %w", engine, err)
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: target})
	proxy.ErrorLog = log.New(io.Discard, "", 0) // engines are killed on purpose
	proxy.ModifyResponse = func(resp *http.Response) error { return r.note(engine, resp) }
	server := &http.Server{Handler: r.watching(proxy), ErrorLog: proxy.ErrorLog}
	r.mu.Lock()
	r.servers = append(r.servers, server)
	r.mu.Unlock()
	go func() { _ = server.Serve(l) }() // ends by close
	return l.Addr().String(), nil
}

func (r *recorder) close() {
	for _, s := range r.servers {
		s.Close()
	}
}

// watching notes requests whose caller goes away.
func (r *recorder) watching(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		turn, ok := turnOf(req)
		if req.URL.Path == loadPath {
			req = rememberLoad(req)
		}
		begun := time.Now()
		if ok {
			req = rememberPrompt(req)
			r.fly(1)
			defer r.fly(-1)
		}
		next.ServeHTTP(w, req)
		if ok && req.Context().Err() != nil {
			r.mu.Lock()
			r.aborts = append(r.aborts, abort{turn.episode, begun, time.Now()})
			r.mu.Unlock()
		}
	})
}

func (r *recorder) fly(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flying += n
}

func (r *recorder) busy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.flying > 1
}

// turnName is what a request's id says: RUN/GROUP/SAMPLE/PHASE/AGENT/ATTEMPT.
type turnName struct {
	turn       string // without the attempt
	episode    string
	trajectory string
}

func turnOf(req *http.Request) (turnName, bool) {
	turn, _, err := rollout.ParseRequestID(req.Header.Get("X-Request-Id"))
	if req.Method != http.MethodPost || err != nil {
		return turnName{}, false
	}
	return turnName{turn.String(), turn.EpisodeRef.String(), turn.TrajectoryID(turn.Agent)}, true
}

// completion is the part of an engine's answer that is compared.
type completion struct {
	Model   string `json:"model"`
	Choices []struct {
		TokenIDs []int32 `json:"token_ids"`
		Logprobs struct {
			TokenLogprobs []float32 `json:"token_logprobs"`
		} `json:"logprobs"`
	} `json:"choices"`
}

// note reads a whole answer before it is passed on, so that nothing reaches a worker unseen.
func (r *recorder) note(engine int, resp *http.Response) error {
	if name, path := loadOf(resp.Request); name != "" && resp.StatusCode == http.StatusOK {
		return r.noteLoad(engine, name, path)
	}
	turn, ok := turnOf(resp.Request)
	if !ok || resp.StatusCode != http.StatusOK {
		return nil
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	var c completion
	if json.Unmarshal(body, &c) != nil || len(c.Choices) != 1 {
		return nil // the service refuses it, too
	}
	choice := c.Choices[0]
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	by := answered{c.Model, r.loaded[engineAdapter{engine, c.Model}]}
	r.models[sampleKey{turn.trajectory, digest(choice.TokenIDs, choice.Logprobs.TokenLogprobs)}] = by
	if by.digest != "" {
		if r.weights[c.Model] == nil {
			r.weights[c.Model] = map[string]bool{}
		}
		r.weights[c.Model][by.digest] = true
	}
	r.answers[turn.episode] = append(r.answers[turn.episode], now)
	r.engines[engine] = append(r.engines[engine], now)
	if g, ok := resp.Request.Context().Value(promptKey{}).(generation); ok {
		g.model = c.Model
		r.made[turn.trajectory] = append(r.made[turn.trajectory], g)
	}
	n := int64(len(choice.TokenIDs))
	if _, before := r.tokens[turn.turn]; before {
		r.again += n
	}
	r.tokens[turn.turn] += n
	r.total += n
	return nil
}

// answeredBy is what answered with this sample of a trajectory; empty when no engine ever did.
func (r *recorder) answeredBy(trajectory string, tokens []int32, logprobs []float32) answered {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.models[sampleKey{trajectory, digest(tokens, logprobs)}]
}

func (r *recorder) repeated() (again, total int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.again, r.total
}
