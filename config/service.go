package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/api"
	"github.com/millrace/millrace/internal/enginediscovery"
	"github.com/millrace/millrace/internal/engineurl"
	"github.com/millrace/millrace/internal/rollout"
)

// Service is the configuration of the processes: server, worker, and dev, which is both. Secrets are not in
// the file: they come from the environment.
type Service struct {
	Listen      string           `json:"listen"`
	TLS         TLS              `json:"tls"`
	Auth        Auth             `json:"auth"`
	Redis       Redis            `json:"redis"`
	Temporal    Temporal         `json:"temporal"`
	Axiom       Axiom            `json:"axiom"`
	Limits      APILimits        `json:"limits"`
	RetainSteps int              `json:"retain_steps"`
	Retention   rollout.Duration `json:"retention"`
	Worker      Worker           `json:"worker"`
	Engines     []Engine         `json:"engines"`
	EnginesFrom string           `json:"engines_from"`
	EngineURLs  engineurl.Config `json:"engine_urls"`

	Tokens       []Secret `json:"-"` // MILLRACE_TOKENS, separated by commas
	EngineAPIKey Secret   `json:"-"` // MILLRACE_ENGINE_API_KEY; engineurl.ConnectionSettings says who gets it
}

// TLS is the certificate of the HTTP API, read again when its files change. Without one the API speaks plain HTTP.
type TLS struct {
	CertFile     string `json:"cert_file"`
	KeyFile      string `json:"key_file"`
	ClientCAFile string `json:"client_ca_file"`
}

// Enabled reports whether the API speaks TLS.
func (t TLS) Enabled() bool { return t.CertFile != "" }

// Auth is who may do what, beside the operators of MILLRACE_TOKENS.
type Auth struct {
	TokensFile     string   `json:"tokens_file"`
	TrustedProxies []string `json:"trusted_proxies"`
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

// Enabled reports whether events are shipped.
func (a Axiom) Enabled() bool { return a.Dataset != "" && a.Token != "" }

// APILimits bound what a client of the API may ask for.
type APILimits struct {
	MaxBodyBytes int64            `json:"max_body_bytes"`
	ClaimWait    rollout.Duration `json:"claim_wait"`

	Runs                  int `json:"runs"`
	GamesPerRun           int `json:"games_per_run"`
	Engines               int `json:"engines"`
	Requests              int `json:"requests"`
	WaitingClaims         int `json:"waiting_claims"`
	Streams               int `json:"streams"`
	Connections           int `json:"connections"`
	ConnectionsPerAddress int `json:"connections_per_address"`
	StepMetricsBytes      int `json:"step_metrics_bytes"`
}

// Worker bounds one worker process.
type Worker struct {
	Games         int       `json:"games"`
	DispatchQueue int       `json:"dispatch_queue"`
	Preflight     Preflight `json:"preflight"`
	Listen        string    `json:"listen"`
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
		Limits:      defaultLimits(),
		RetainSteps: 2,
		Worker:      Worker{Games: 1000, DispatchQueue: 16384, Preflight: PreflightRefuse},
	}
}

// defaultEngines is how many engines a fleet may have where nothing else is said.
const defaultEngines = 256

func defaultLimits() APILimits {
	l := api.DefaultLimits()
	return APILimits{
		MaxBodyBytes: api.DefaultMaxBodyBytes, ClaimWait: rollout.Duration(api.DefaultMaxWait),
		Runs: l.Runs, GamesPerRun: l.GamesPerRun, Engines: defaultEngines, Requests: l.Requests, WaitingClaims: l.WaitingClaims,
		Streams: l.Streams, Connections: l.Connections, ConnectionsPerAddress: l.ConnectionsPerAddress, StepMetricsBytes: l.StepMetricsBytes,
	}
}

var serviceTable = table{
	rules: []rule{
		{path: "listen", doc: "address of the HTTP API, host:port; anything but a loopback address needs tokens", required: true, example: "0.0.0.0:8700"},
		{path: "tls", doc: "the API's certificate, read again when its files change; plain HTTP without one"},
		{path: "tls.cert_file", doc: "certificate chain, PEM"},
		{path: "tls.key_file", doc: "its key, PEM"},
		{path: "tls.client_ca_file", doc: "authorities, PEM, of which every client must show a certificate; none is asked for, if not given"},
		{path: "auth", doc: "who may do what, beside MILLRACE_TOKENS, whose bearers are operators (docs/security.md)"},
		{path: "auth.tokens_file", doc: "roles and the hashes of their tokens, read again when it changes; MILLRACE_TOKENS_FILE takes its place", example: "/etc/millrace/tokens.yaml"},
		{path: "auth.trusted_proxies", doc: "networks of proxies whose X-Forwarded-For names the client, in audits and for the limits by address", example: "[10.0.0.0/24]"},
		{path: "redis", doc: "where the buffer is"},
		{path: "redis.url", doc: "redis://, rediss:// or unix:// address; MILLRACE_REDIS_URL takes its place when it holds a password", required: true},
		{path: "redis.prefix", doc: "of every key, so that deployments can share a Redis", required: true},
		{path: "temporal", doc: "where the workflows are"},
		{path: "temporal.address", doc: "host:port of Temporal's frontend; TEMPORAL_ADDRESS takes its place", required: true},
		{path: "temporal.namespace", doc: "Temporal namespace; TEMPORAL_NAMESPACE takes its place", required: true},
		{path: "temporal.task_queue_prefix", doc: "of the task queues and workflow ids, so that deployments can share a namespace", required: true},
		{path: "temporal.tls", doc: "whether to speak TLS; always with TEMPORAL_API_KEY"},
		{path: "axiom", doc: "where events are shipped to; the token comes from AXIOM_TOKEN"},
		{path: "axiom.dataset", doc: "Axiom dataset; nothing is shipped without one"},
		{path: "axiom.url", doc: "address of Axiom", required: true},
		{path: "limits", doc: "what a client of the API may ask for"},
		{path: "limits.max_body_bytes", doc: "size of a request", min: limit(1 << 10), max: limit(64 << 20)},
		{path: "limits.claim_wait", doc: "the longest that a claim may wait, whatever it asks for", above: limit(0), max: limit(600)},
		{path: "limits.runs", doc: "runs that go on at a time; one more is refused", min: limit(1), max: limit(100_000)},
		{path: "limits.games_per_run", doc: "games that one run may have outstanding: buffer.depth x buffer.groups_per_step x (group.samples + group.oversample)", min: limit(1), max: limit(100_000_000)},
		{path: "limits.engines", doc: "engines in the fleet, those that engines_from names not counted against it", min: limit(1), max: limit(100_000)},
		{path: "limits.requests", doc: "requests in progress at a time in one server; claims that wait and streams are not among them", min: limit(8), max: limit(100_000)},
		{path: "limits.waiting_claims", doc: "claims that wait at a time in one server; three quarters of them for one run at most", min: limit(8), max: limit(1_000_000)},
		{path: "limits.streams", doc: "streams of events at a time in one server; three quarters of them for one run at most", min: limit(4), max: limit(100_000)},
		{path: "limits.connections", doc: "connections open at a time in one server; its limit of open files, less 64, lowers it", min: limit(16), max: limit(1_000_000)},
		{path: "limits.connections_per_address", doc: "connections open at a time from one address that have not shown a token yet", min: limit(4), max: limit(1_000_000)},
		{path: "limits.step_metrics_bytes", doc: "metrics of one step record, as JSON; every record is kept", min: limit(64), max: limit(1 << 20)},
		{path: "retain_steps", doc: "steps whose batches are kept after they were trained on, for a trainer that goes back to a checkpoint", min: limit(0), max: limit(1000)},
		{path: "retention", doc: "how long a run is kept once it is over; then a worker deletes it. 0: until somebody does", min: limit(0), example: "30d"},
		{path: "worker", doc: "bounds of one worker process"},
		{path: "worker.games", doc: "games played at a time", min: limit(1), max: limit(100_000)},
		{path: "worker.dispatch_queue", doc: "requests that may wait for an engine", min: limit(1), max: limit(1_000_000)},
		{path: "worker.preflight", doc: "what a worker does that cannot go on with what another version has begun (docs/upgrades.md): end with an error, log one and go on, or not look",
			oneOf: []string{string(PreflightRefuse), string(PreflightWarn), string(PreflightOff)}},
		{path: "worker.listen", doc: "host:port of /healthz, /readyz and /metrics, which ask for no token (docs/security.md); none, if not given", example: "127.0.0.1:8701"},
		{path: "engines", doc: "engines that are in the fleet from the start; others join over the API"},
		{path: "engines.id", doc: "the engine's name; made from its address, if not given"},
		{path: "engines.url", doc: "http://host:port of a vLLM server, without /v1", required: true, example: "http://10.0.0.7:8000"},
		{path: "engines_from", doc: "a list of engines that is read every 10 s: file:/path with an address per line, or dns:name:port; engines that it no longer names leave when they have finished", example: "dns:vllm.internal:8000"},
		{path: "engine_urls", doc: "where engines may be, and which key and TLS they are reached with (docs/engines.md)"},
		{path: "engine_urls.allow", example: "10.0.0.0/8",
			doc: "ranges, hosts such as *.gpu.internal, or beginnings of URLs; no other engines may be added; empty: any but link-local and the like"},
		{path: "engine_urls.deny", doc: "the same, of where no engine may be, whatever allow says"},
		{path: "engine_urls.keys_file", doc: "an absolute path; lines of engines, as in allow, and their API key; read again when it changes"},
		{path: "engine_urls.tls", doc: "how connections to some https engines are secured; the first entry that means an engine holds"},
		{path: "engine_urls.tls.engines", doc: "which engines, as in allow", required: true, example: "https://*.gpu.internal"},
		{path: "engine_urls.tls.ca_file", doc: "PEM file of who may have signed the engine's certificate; empty: who the system trusts"},
		{path: "engine_urls.tls.cert_file", doc: "PEM file of the certificate that the service shows; read for each connection"},
		{path: "engine_urls.tls.key_file", doc: "PEM file of its key"},
		{path: "engine_urls.tls.server_name", doc: "the name that the engine's certificate is for; empty: the host of its address"},
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
		"MILLRACE_LISTEN":        &s.Listen,
		"MILLRACE_WORKER_LISTEN": &s.Worker.Listen,
		"MILLRACE_REDIS_URL":     &s.Redis.URL,
		"MILLRACE_TOKENS_FILE":   &s.Auth.TokensFile,
		"TEMPORAL_ADDRESS":       &s.Temporal.Address,
		"TEMPORAL_NAMESPACE":     &s.Temporal.Namespace,
		"AXIOM_DATASET":          &s.Axiom.Dataset,
		"AXIOM_URL":              &s.Axiom.URL,
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
	host, _, _ := net.SplitHostPort(s.Worker.Listen) // its own fault is told below
	check("worker.listen", s.Worker.Listen, "host:port with a host, such as 127.0.0.1:8701, or 0.0.0.0:8701 for every interface",
		hostPort(s.Worker.Listen) && host != "")
	check("temporal.address", s.Temporal.Address, "host:port, such as 127.0.0.1:7233", hostPort(s.Temporal.Address))
	if !address(s.Redis.URL, "redis", "rediss", "unix") && s.Redis.URL != "" && !r.hasFault("redis.url") {
		r.faultAt("redis.url", "want redis://host:port/db, rediss:// for TLS, or unix:///path") // It may hold a password, and is not shown.
	}
	check("axiom.url", s.Axiom.URL, "an http or https address", address(s.Axiom.URL, "http", "https"))
	if s.EnginesFrom != "" {
		_, err := enginediscovery.ParseSource(s.EnginesFrom)
		check("engines_from", s.EnginesFrom, "file:/path or dns:name:port", err == nil)
	}
	for _, err := range each(s.EngineURLs.Validate()) {
		at, text, _ := strings.Cut(err.Error(), ": ")
		if !r.hasFault("engine_urls." + at) {
			r.faultAt("engine_urls."+at, "%s", text)
		}
	}
	addresses, _ := s.EngineURLs.Rules() // its faults have been told
	if (s.TLS.CertFile == "") != (s.TLS.KeyFile == "") {
		r.faultAt("tls", "cert_file and key_file belong together: set both, or none")
	}
	if s.TLS.ClientCAFile != "" && !s.TLS.Enabled() {
		r.faultAt("tls.client_ca_file", "certificates of clients are only shown over TLS: set cert_file and key_file, too")
	}
	for i, network := range s.Auth.TrustedProxies {
		if _, err := netip.ParsePrefix(network); err != nil {
			r.faultAt(fmt.Sprintf("auth.trusted_proxies[%d]", i), "%q is not a network such as 10.0.0.0/24 or 10.0.0.7/32", network)
		}
	}
	urls, ids := map[string]int{}, map[rollout.EngineID]int{}
	for i, e := range s.Engines {
		path := fmt.Sprintf("engines[%d]", i)
		check(path+".url", e.URL, "http://host:port, without /v1", engineURL(e.URL))
		if err := addresses.Check(e.URL); err != nil && !r.hasFault(path+".url") {
			r.faultAt(path+".url", "%v", err)
		}
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
	cfg.Retention = s.Retention.Std()
	l := s.Limits
	cfg.Limits = api.Limits{
		Runs: l.Runs, GamesPerRun: l.GamesPerRun, Requests: l.Requests, WaitingClaims: l.WaitingClaims, Streams: l.Streams,
		Connections: l.Connections, ConnectionsPerAddress: l.ConnectionsPerAddress, StepMetricsBytes: l.StepMetricsBytes,
	}
	for _, network := range s.Auth.TrustedProxies {
		if prefix, err := netip.ParsePrefix(network); err == nil { // ReadService has checked it
			cfg.TrustedProxies = append(cfg.TrustedProxies, prefix)
		}
	}
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
