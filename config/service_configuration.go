package config

import (
	_ "embed"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/engine/address/discovery"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/kit/settings/document"
	"github.com/millrace/millrace/internal/process/connections"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/store/redisserver"
	"github.com/millrace/millrace/worker/workerconfig"
)

// Service is the configuration of the processes: server, worker, and dev, which is both. Secrets are not in
// the file: they come from the environment.
type Service struct {
	workerconfig.Config
	Name     string    `json:"name"` // of the deployment; empty: it has none
	Listen   string    `json:"listen"`
	LogLevel string    `json:"log_level"`
	TLS      TLS       `json:"tls"`
	Auth     Auth      `json:"auth"`
	Axiom    Axiom     `json:"axiom"`
	Limits   APILimits `json:"limits"`
	Scaling  *Scaling  `json:"scaling"` // nil: the fleet is not scaled

	Source *Source              `json:"-"` // where it was read; nil: it is not read again
	Tokens []connections.Secret `json:"-"` // MILLRACE_TOKENS, separated by commas
}

// ForWorker is what a worker is told.
func (s Service) ForWorker() workerconfig.Config {
	cfg := s.Config
	if s.Scaling != nil {
		cfg.Scaling = &s.Scaling.Scaling
	}
	return cfg
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

// Axiom is where events are shipped to. Nothing is shipped without a dataset and a token.
type Axiom struct {
	Dataset string `json:"dataset"`
	URL     string `json:"url"`
	OrgID   string `json:"org_id,omitempty"` // needed with personal tokens only

	Token connections.Secret `json:"-"` // AXIOM_TOKEN
}

// Enabled reports whether events are shipped.
func (a Axiom) Enabled() bool { return a.Dataset != "" && a.Token != "" }

// APILimits bound what a client of the API may ask for.
type APILimits struct {
	MaxBodyBytes int64            `json:"max_body_bytes"`
	ClaimWait    rollout.Duration `json:"claim_wait"`
	Engines      int              `json:"engines"`
	api.Limits
}

// DefaultService is the configuration where no file says anything: everything on this machine, at its usual port.
func DefaultService() Service {
	var s Service
	serviceTable.SetDefaults(&s)
	return s
}

// ServiceSchema is the JSON schema of the service's configuration; schema/service.schema.json holds it.
func ServiceSchema() []byte {
	defaults := DefaultService()
	return serviceTable.Schema("Millrace service configuration", &defaults)
}

// serviceTable is every key: the file's rows, and those of the parts of the service, below their sections.
var serviceTable = func() settings.Table {
	t := settings.ReadTable(serviceKeys)
	t.Keys = slices.Concat(t.Keys, below("scaling", scaling.Keys), providerKeys())
	return t
}()

//go:embed service_keys.json
var serviceKeys []byte

// ReadService reads the service's configuration from YAML, nil meaning that there is no file, and lets
// environment variables take the place of what it says. Flags come last and are the caller's. Its error is
// settings.Faults.
func ReadService(name string, data []byte, getenv func(string) string) (Service, error) {
	service := DefaultService()
	if data == nil {
		data = []byte("{}")
	}
	d := document.Open(serviceTable, name, data, &service)
	if !d.Readable() {
		return Service{}, d.Err()
	}
	service.environment(getenv)
	service.PageURL = strings.TrimSuffix(service.PageURL, "/")
	d.Check(&service)
	checkService(d, &service)
	if err := d.Err(); err != nil {
		return Service{}, err
	}
	return service, nil
}

// environment applies the variables that are set.
func (s *Service) environment(getenv func(string) string) {
	for name, text := range map[string]*string{
		"MILLRACE_LISTEN":        &s.Listen,
		"MILLRACE_LOG_LEVEL":     &s.LogLevel,
		"MILLRACE_PAGE_URL":      &s.PageURL,
		"MILLRACE_WORKER_LISTEN": &s.Worker.Listen,
		"MILLRACE_DISPATCH_LOG":  &s.Worker.DispatchLog,
		"MILLRACE_SPOOL_DIR":     &s.Spool.Dir,
		"MILLRACE_REDIS_URL":     &s.Redis.URL,
		"MILLRACE_TOKENS_FILE":   &s.Auth.TokensFile,
		"TEMPORAL_ADDRESS":       &s.Temporal.Address,
		"TEMPORAL_NAMESPACE":     &s.Temporal.Namespace,
		"TEMPORAL_UI_URL":        &s.Temporal.UIURL,
		"AXIOM_DATASET":          &s.Axiom.Dataset,
		"AXIOM_URL":              &s.Axiom.URL,
		"AXIOM_ORG_ID":           &s.Axiom.OrgID,
	} {
		if v := getenv(name); v != "" {
			*text = v
		}
	}
	s.OTel.Environment(getenv)
	s.Axiom.Token = connections.Secret(getenv("AXIOM_TOKEN"))
	s.Temporal.APIKey = connections.Secret(getenv("TEMPORAL_API_KEY"))
	s.EngineAPIKey = connections.Secret(getenv("MILLRACE_ENGINE_API_KEY"))
	s.Tokens = nil
	for token := range strings.SplitSeq(getenv("MILLRACE_TOKENS"), ",") {
		if token = strings.TrimSpace(token); token != "" {
			s.Tokens = append(s.Tokens, connections.Secret(token))
		}
	}
}

// checkService is the rules for addresses. Whether the API may listen where it should is api.Config's to say: a
// worker does not listen.
func checkService(d *document.Document, s *Service) {
	check := func(path, text, want string, ok bool) {
		if text != "" && !ok {
			d.FaultOnce(path, "%q is not %s", text, want)
		}
	}
	check("listen", s.Listen, "host:port, such as 127.0.0.1:8700", hostPort(s.Listen))
	host, _, _ := net.SplitHostPort(s.Worker.Listen) // its own fault is told below
	check("worker.listen", s.Worker.Listen, "host:port with a host, such as 127.0.0.1:8701, or 0.0.0.0:8701 for "+
		"every interface",
		hostPort(s.Worker.Listen) && host != "")
	check("temporal.address", s.Temporal.Address, "host:port, such as 127.0.0.1:7233", hostPort(s.Temporal.Address))
	if _, err := redisserver.Parse(s.Redis.URL); err != nil && s.Redis.URL != "" {
		d.FaultOnce("redis.url", "%v", err) // it may hold a password, and is not shown
	}
	if s.Redis.WaitReplicas < 0 {
		d.Fault("redis.wait_replicas", "%d replicas: want 0 or more", s.Redis.WaitReplicas)
	}
	if s.Redis.WaitFor <= 0 {
		d.Fault("redis.wait_for", "%v: want a time, such as 1s", s.Redis.WaitFor.Std())
	}
	check("page_url", s.PageURL, "an http or https address", address(s.PageURL, "http", "https"))
	check("temporal.ui_url", s.Temporal.UIURL, "an http or https address", address(s.Temporal.UIURL, "http", "https"))
	check("otel.endpoint", s.OTel.Endpoint, "an http or https address", address(s.OTel.Endpoint, "http", "https"))
	check("axiom.url", s.Axiom.URL, "an http or https address", address(s.Axiom.URL, "http", "https"))
	if s.EnginesFrom != "" {
		_, err := discovery.ParseSource(s.EnginesFrom)
		check("engines_from", s.EnginesFrom, "file:/path or dns:name:port", err == nil)
	}
	for _, err := range settings.Each(s.EngineURLs.Validate()) {
		at, text, _ := strings.Cut(err.Error(), ": ")
		d.FaultOnce("engine_urls."+at, "%s", text)
	}
	checkScaling(d, s.Scaling)
	addresses, _ := s.EngineURLs.Rules() // its faults have been told
	if (s.TLS.CertFile == "") != (s.TLS.KeyFile == "") {
		d.Fault("tls", "cert_file and key_file belong together: set both, or none")
	}
	if s.TLS.ClientCAFile != "" && !s.TLS.Enabled() {
		d.Fault("tls.client_ca_file", "certificates of clients are only shown over TLS: set cert_file and key_file, too")
	}
	for i, network := range s.Auth.TrustedProxies {
		if _, err := netip.ParsePrefix(network); err != nil {
			d.Fault(fmt.Sprintf("auth.trusted_proxies[%d]", i), "%q is not a network such as 10.0.0.0/24 or "+
				"10.0.0.7/32", network)
		}
	}
	urls, ids := map[string]int{}, map[rollout.EngineID]int{}
	for i, e := range s.Engines {
		path := fmt.Sprintf("engines[%d]", i)
		check(path+".url", e.URL, "http://host:port, without /v1", engineURL(e.URL))
		if err := addresses.Check(e.URL); err != nil {
			d.FaultOnce(path+".url", "%v", err)
		}
		if first, again := urls[e.URL]; again && e.URL != "" {
			d.Fault(path+".url", "the same as engines[%d].url", first)
		}
		if first, again := ids[e.ID]; again && e.ID != "" {
			d.Fault(path+".id", "the same as engines[%d].id", first)
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
	return err == nil && address(s, "http", "https") && strings.Trim(u.Path, "/") == "" &&
		u.RawQuery == "" && u.User == nil
}

// Redacted is s as it may be shown: secrets hide themselves, and passwords in addresses are masked.
func (s Service) Redacted() Service {
	s.Redis.URL = redisserver.Redacted(s.Redis.URL)
	return s
}

// PageAddress is where people reach a server's operator's page: as it is configured, or where the server listens.
// Empty: not known.
func (s Service) PageAddress() string {
	host, _, err := net.SplitHostPort(s.Listen)
	ip := net.ParseIP(host)
	switch {
	case s.PageURL != "":
		return s.PageURL
	case err != nil || host == "" || ip.IsUnspecified():
		return ""
	case s.TLS.Enabled():
		return "https://" + s.Listen
	}
	return "http://" + s.Listen
}
