package address

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ConnectionSettings is how this process connects to engines: Rules, keys and TLS. It is safe for concurrent use.
type ConnectionSettings struct {
	rules      Rules
	defaultKey string
	everybody  bool // the default key goes to all engines, because only allowed ones can be reached
	tls        []secured
	now        func() time.Time

	mu      sync.Mutex
	listed  map[string]bool
	file    string
	looked  time.Time // at the file
	written time.Time
	keys    []keyed
}

type secured struct {
	engines pattern
	config  *tls.Config
}

type keyed struct {
	engines pattern
	key     string
}

// lookEvery is how often the file of keys is looked at.
const lookEvery = time.Second

// NewConnectionSettings reads the files that a configuration names. The default key is sent only to addresses that an
// operator of the service intends: to the listed URLs, to engines of a followed list, and, if there is a list of
// allowed addresses, to all of them. A user's own address does not get it.
func NewConnectionSettings(
	cfg Config, defaultKey string, listed []string, now func() time.Time,
) (*ConnectionSettings, error) {
	rules, err := cfg.Rules()
	if err != nil {
		return nil, fmt.Errorf("engine_urls: %w", err)
	}
	s := &ConnectionSettings{
		rules: rules, defaultKey: defaultKey, everybody: len(rules.allow) > 0, now: now,
		file: cfg.KeysFile,
	}
	s.List(listed)
	for i, t := range cfg.TLS {
		one, err := t.load()
		if err != nil {
			return nil, fmt.Errorf("engine_urls.tls[%d]: %w", i, err)
		}
		s.tls = append(s.tls, one)
	}
	if s.file == "" {
		return s, nil
	}
	if err := s.readKeys(); err != nil {
		return nil, fmt.Errorf("engine_urls.keys_file: %w", err)
	}
	return s, nil
}

func (t TLS) load() (secured, error) {
	engines, err := parsePattern(t.Engines)
	if err != nil {
		return secured{}, err
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return secured{}, err
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return secured{}, fmt.Errorf("%s has no certificate in PEM", t.CAFile)
		}
	}
	if t.CertFile != "" {
		if _, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile); err != nil {
			return secured{}, err
		}
		// Read for each connection, so that a renewed certificate is shown without a restart.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
			return &cert, err
		}
	}
	return secured{engines, cfg}, nil
}

// List takes other URLs from now on as those that an operator of the service means engines to be at.
func (s *ConnectionSettings) List(urls []string) {
	listed := map[string]bool{}
	for _, text := range urls {
		listed[text] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed = listed
}

// Dial is the Control of connections to a URL; see Rules.
func (s *ConnectionSettings) Dial(text string) (func(network, address string, c syscall.RawConn) error, error) {
	return s.rules.Dial(text)
}

// DialNamed is Dial for a URL that a run's spec names. Nobody has judged its host's name yet, so that is judged, too.
func (s *ConnectionSettings) DialNamed(text string) (func(network, address string, c syscall.RawConn) error, error) {
	if err := s.rules.Check(text); err != nil {
		return nil, err
	}
	return s.rules.Dial(text)
}

// TLS is how connections to a URL are secured: by the first entry that matches it. nil: by Go's defaults.
func (s *ConnectionSettings) TLS(text string) *tls.Config {
	u, err := url.Parse(text)
	if err != nil {
		return nil
	}
	for _, one := range s.tls {
		if one.engines.matches(u) {
			return one.config.Clone()
		}
	}
	return nil
}

// Key is the API key of the engine at a URL: the first in the file that matches it, or else the default key, if it goes
// there. followed says that a list of engines that the service follows names the engine. Empty: none is sent.
func (s *ConnectionSettings) Key(text string, followed bool) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	if key := s.keyInFile(u, false); key != "" {
		return key
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.everybody || followed || s.listed[text] {
		return s.defaultKey
	}
	return ""
}

// NamedKey is the API key that the file has for a URL that a run's spec names; empty: none. Lines without http:// or
// https:// are of engines alone, and so is the default key: a spec must not choose to send a key in the clear.
func (s *ConnectionSettings) NamedKey(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return s.keyInFile(u, true)
}

func (s *ConnectionSettings) keyInFile(u *url.URL, byURL bool) string {
	for _, k := range s.current() {
		if k.engines.matches(u) && (k.engines.scheme != "" || !byURL) {
			return k.key
		}
	}
	return ""
}

// current is the keys of the file. While it cannot be read, as when it is being replaced, the keys that were read last
// stay in force.
func (s *ConnectionSettings) current() []keyed {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != "" && s.now().Sub(s.looked) >= lookEvery {
		_ = s.readKeys() // see above
	}
	return s.keys
}

// readKeys reads the file, if it has changed. It is called by one at a time.
func (s *ConnectionSettings) readKeys() error {
	s.looked = s.now()
	info, err := os.Stat(s.file)
	if err != nil || info.ModTime().Equal(s.written) {
		return err
	}
	data, err := os.ReadFile(s.file)
	if err != nil {
		return err
	}
	keys, err := parseKeys(data)
	if err != nil {
		return err
	}
	s.keys, s.written = keys, info.ModTime()
	return nil
}

func parseKeys(data []byte) ([]keyed, error) {
	var keys []keyed
	var errs []error
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) != 2 {
			errs = append(errs, fmt.Errorf("line %d: want the engines and their key, as in http://gpu7.internal:8000 KEY", n))
			continue
		}
		p, err := parsePattern(words[0])
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", n, err))
			continue
		}
		keys = append(keys, keyed{p, words[1]})
	}
	return keys, errors.Join(append(errs, lines.Err())...)
}
