package config

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/api"
	"github.com/millrace/millrace/internal/fleet"
	"github.com/millrace/millrace/internal/rollout"
)

// Service is the configuration of the processes: server, worker, and dev, which is both. Secrets are not in
// the file: they come from the environment.
type Service struct {
	Listen      string    `json:"listen"`
	Redis       Redis     `json:"redis"`
	Temporal    Temporal  `json:"temporal"`
	Axiom       Axiom     `json:"axiom"`
	Limits      APILimits `json:"limits"`
	RetainSteps int       `json:"retain_steps"`
	Worker      Worker    `json:"worker"`
	Engines     []Engine  `json:"engines"`
	EnginesFrom string    `json:"engines_from"`

	Tokens       []Secret `json:"-"` // MILLRACE_TOKENS, separated by commas
	EngineAPIKey Secret   `json:"-"` // MILLRACE_ENGINE_API_KEY, sent to every engine
}

// Redis is where the buffer is.
type Redis struct {
	URL    string `json:"url"`
	Prefix string `json:"prefix"`
}

// Temporal is where the workflows are.
type Temporal struct {
	Address         string `json:"address"`
	Namespace       string `json:"namespace"`
	TaskQueuePrefix string `json:"task_queue_prefix"`
	TLS             bool   `json:"tls"`

	APIKey Secret `json:"-"` // TEMPORAL_API_KEY
}

// Axiom is where events are shipped to. Nothing is shipped without a dataset and a token.
type Axiom struct {
	Dataset string `json:"dataset"`
	URL     string `json:"url"`

	Token Secret `json:"-"` // AXIOM_TOKEN
}

// Enabled tells whether events are shipped.
func (a Axiom) Enabled() bool { return a.Dataset != "" && a.Token != "" }

// APILimits bound what a client of the API may ask for.
type APILimits struct {
	MaxBodyBytes int64            `json:"max_body_bytes"`
	ClaimWait    rollout.Duration `json:"claim_wait"`
}

// Worker bounds one worker process.
type Worker struct {
	Games         int       `json:"games"`
	DispatchQueue int       `json:"dispatch_queue"`
	Preflight     Preflight `json:"preflight"`
}

// Preflight is what a worker does that cannot go on with what another version has begun; refuse when it is empty.
type Preflight string

// What a preflight may do: end the worker with an error, log one and go on, or not look.
const (
	PreflightRefuse Preflight = "refuse"
	PreflightWarn   Preflight = "warn"
	PreflightOff    Preflight = "off"
)

// Engine is an engine that is in the fleet from the start; others join over the API.
type Engine struct {
	ID          rollout.EngineID `json:"id"`
	URL         string           `json:"url"`
	MaxInFlight int              `json:"max_in_flight"`
}

// Secret is a text that does not show itself.
type Secret string

// Reveal is the text.
func (s Secret) Reveal() string { return string(s) }

// String hides the text from logs.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(secret)"
}

// GoString hides the text from %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides the text from files.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// DefaultService is the configuration where no file says anything: everything on this machine, at its usual port.
func DefaultService() Service {
	return Service{
		Listen:      "127.0.0.1:8700",
		Redis:       Redis{URL: "redis://127.0.0.1:6379/0", Prefix: "millrace"},
		Temporal:    Temporal{Address: "127.0.0.1:7233", Namespace: "default", TaskQueuePrefix: "millrace"},
		Axiom:       Axiom{URL: "https://api.axiom.co"},
		Limits:      APILimits{MaxBodyBytes: api.DefaultMaxBodyBytes, ClaimWait: rollout.Duration(api.DefaultMaxWait)},
		RetainSteps: 2,
		Worker:      Worker{Games: 1000, DispatchQueue: 16384, Preflight: PreflightRefuse},
	}
}

var serviceTable = table{
	rules: []rule{
		{path: "listen", doc: "address of the HTTP API, host:port; anything but a loopback address needs MILLRACE_TOKENS", required: true, example: "0.0.0.0:8700"},
		{path: "redis", doc: "where the buffer is"},
		{path: "redis.url", doc: "redis://, rediss:// or unix:// address; MILLRACE_REDIS_URL takes its place when it holds a password", required: true},
		{path: "redis.prefix", doc: "of every key, so that deployments can share a Redis", required: true},
		{path: "temporal", doc: "where the workflows are"},
		{path: "temporal.address", doc: "host:port of Temporal's frontend; TEMPORAL_ADDRESS takes its place", required: true},
		{path: "temporal.namespace", doc: "Temporal namespace; TEMPORAL_NAMESPACE takes its place", required: true},
		{path: "temporal.task_queue_prefix", doc: "of the task queues, so that deployments can share a namespace", required: true},
		{path: "temporal.tls", doc: "whether to speak TLS; always with TEMPORAL_API_KEY"},
		{path: "axiom", doc: "where events are shipped to; the token comes from AXIOM_TOKEN"},
		{path: "axiom.dataset", doc: "Axiom dataset; nothing is shipped without one"},
		{path: "axiom.url", doc: "address of Axiom", required: true},
		{path: "limits", doc: "what a client of the API may ask for"},
		{path: "limits.max_body_bytes", doc: "size of a request", min: limit(1 << 10), max: limit(64 << 20)},
		{path: "limits.claim_wait", doc: "the longest that a claim may wait, whatever it asks for", above: limit(0), max: limit(600)},
		{path: "retain_steps", doc: "steps whose batches are kept after they were trained on, for a trainer that goes back to a checkpoint", min: limit(0), max: limit(1000)},
		{path: "worker", doc: "bounds of one worker process"},
		{path: "worker.games", doc: "games played at a time", min: limit(1), max: limit(100_000)},
		{path: "worker.dispatch_queue", doc: "requests that may wait for an engine", min: limit(1), max: limit(1_000_000)},
		{path: "worker.preflight", doc: "what a worker does that cannot go on with what another version has begun (docs/upgrades.md): end with an error, log one and go on, or not look",
			oneOf: []string{string(PreflightRefuse), string(PreflightWarn), string(PreflightOff)}},
		{path: "engines", doc: "engines that are in the fleet from the start; others join over the API"},
		{path: "engines.id", doc: "the engine's name; made from its address, if not given"},
		{path: "engines.url", doc: "http://host:port of a vLLM server, without /v1", required: true, example: "http://10.0.0.7:8000"},
		{path: "engines_from", doc: "a list of engines that is read every 10 s: file:/path with an address per line, or dns:name:port; engines that it no longer names leave when they have finished", example: "dns:vllm.internal:8000"},
		{path: "engines.max_in_flight", doc: "requests at a time, over all workers; 0 leaves it to the service", min: limit(0), max: limit(100_000)},
	},
	hints: map[string]string{
		"tokens":           "secrets do not belong in this file; set the environment variable MILLRACE_TOKENS",
		"token":            "secrets do not belong in this file; set the environment variable MILLRACE_TOKENS",
		"axiom.token":      "secrets do not belong in this file; set the environment variable AXIOM_TOKEN",
		"temporal.api_key": "secrets do not belong in this file; set the environment variable TEMPORAL_API_KEY",
		"redis.password":   "secrets do not belong in this file; set the environment variable MILLRACE_REDIS_URL",
	},
}

// ReadService reads the service's configuration from YAML, nil meaning that there is no file, and lets
// environment variables take the place of what it says. Flags come last and are the caller's. Its error is Faults.
func ReadService(name string, data []byte, getenv func(string) string) (Service, error) {
	service := DefaultService()
	r := &reader{file: name, table: serviceTable}
	if data != nil {
		r.read(data, &service)
		if len(r.places) == 0 && len(r.faults) > 0 {
			return Service{}, r.faults.err()
		}
	}
	service.environment(getenv)
	r.check(&service)
	r.checkService(&service)
	if err := r.faults.err(); err != nil {
		return Service{}, err
	}
	return service, nil
}

// environment applies the variables that are set.
func (s *Service) environment(getenv func(string) string) {
	for name, text := range map[string]*string{
		"MILLRACE_LISTEN":    &s.Listen,
		"MILLRACE_REDIS_URL": &s.Redis.URL,
		"TEMPORAL_ADDRESS":   &s.Temporal.Address,
		"TEMPORAL_NAMESPACE": &s.Temporal.Namespace,
		"AXIOM_DATASET":      &s.Axiom.Dataset,
		"AXIOM_URL":          &s.Axiom.URL,
	} {
		if v := getenv(name); v != "" {
			*text = v
		}
	}
	s.Axiom.Token = Secret(getenv("AXIOM_TOKEN"))
	s.Temporal.APIKey = Secret(getenv("TEMPORAL_API_KEY"))
	s.EngineAPIKey = Secret(getenv("MILLRACE_ENGINE_API_KEY"))
	s.Tokens = nil
	for token := range strings.SplitSeq(getenv("MILLRACE_TOKENS"), ",") {
		if token = strings.TrimSpace(token); token != "" {
			s.Tokens = append(s.Tokens, Secret(token))
		}
	}
}

// checkService is the rules for addresses. Whether the API may listen where it should is api.Config's to say: a
// worker does not listen.
func (r *reader) checkService(s *Service) {
	check := func(path, text, want string, ok bool) {
		if text != "" && !ok && !r.hasFault(path) {
			r.faultAt(path, "%q is not %s", text, want)
		}
	}
	check("listen", s.Listen, "host:port, such as 127.0.0.1:8700", hostPort(s.Listen))
	check("temporal.address", s.Temporal.Address, "host:port, such as 127.0.0.1:7233", hostPort(s.Temporal.Address))
	if !address(s.Redis.URL, "redis", "rediss", "unix") && s.Redis.URL != "" && !r.hasFault("redis.url") {
		r.faultAt("redis.url", "want redis://host:port/db, rediss:// for TLS, or unix:///path") // It may hold a password, and is not shown.
	}
	check("axiom.url", s.Axiom.URL, "an http or https address", address(s.Axiom.URL, "http", "https"))
	if s.EnginesFrom != "" {
		_, err := fleet.ParseSource(s.EnginesFrom)
		check("engines_from", s.EnginesFrom, "file:/path or dns:name:port", err == nil)
	}
	urls, ids := map[string]int{}, map[rollout.EngineID]int{}
	for i, e := range s.Engines {
		path := fmt.Sprintf("engines[%d]", i)
		check(path+".url", e.URL, "http://host:port, without /v1", engineURL(e.URL))
		if first, again := urls[e.URL]; again && e.URL != "" {
			r.faultAt(path+".url", "the same as engines[%d].url", first)
		}
		if first, again := ids[e.ID]; again && e.ID != "" {
			r.faultAt(path+".id", "the same as engines[%d].id", first)
		}
		urls[e.URL], ids[e.ID] = i, i
	}
}

func hostPort(s string) bool {
	_, port, err := net.SplitHostPort(s)
	return err == nil && port != ""
}

func address(s string, schemes ...string) bool {
	u, err := url.Parse(s)
	return err == nil && slices.Contains(schemes, u.Scheme) && (u.Host != "" || u.Scheme == "unix" && u.Path != "")
}

func engineURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && address(s, "http", "https") && strings.Trim(u.Path, "/") == "" && u.RawQuery == "" && u.User == nil
}

// API is the part of the HTTP server.
func (s Service) API(version string) api.Config {
	cfg := api.Config{Listen: s.Listen, MaxBodyBytes: s.Limits.MaxBodyBytes, MaxWait: time.Duration(s.Limits.ClaimWait), Version: version}
	for _, t := range s.Tokens {
		cfg.Tokens = append(cfg.Tokens, t.Reveal())
	}
	return cfg
}

// Redacted is s as it may be shown: secrets hide themselves, and passwords in addresses are masked.
func (s Service) Redacted() Service {
	if u, err := url.Parse(s.Redis.URL); err == nil {
		s.Redis.URL = u.Redacted()
	}
	return s
}
