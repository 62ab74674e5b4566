package address

import (
	"errors"
	"fmt"
	"path/filepath"
)

// Config is engine_urls of the service's configuration. The zero value allows all addresses that are not reserved.
type Config struct {
	Allow []string `json:"allow"` // ranges, hosts and beginnings of URLs; none: all
	Deny  []string `json:"deny"`
	// KeysFile has a line for each key: the beginning of a URL, a host or a range, and the key. It is read again when
	// it changes.
	KeysFile string `json:"keys_file"`
	TLS      []TLS  `json:"tls"`
}

// TLS is how connections to some engines are secured. Files are PEM.
type TLS struct {
	Engines    string `json:"engines"`     // which: a range, a host or the beginning of a URL
	CAFile     string `json:"ca_file"`     // signers of the engine's certificate; empty: the system's
	CertFile   string `json:"cert_file"`   // what the service shows, with KeyFile; empty: nothing
	KeyFile    string `json:"key_file"`    //
	ServerName string `json:"server_name"` // that the engine's certificate is for; empty: the URL's host
}

// Rules reads the lists. Its error names every faulty entry.
func (c Config) Rules() (Rules, error) {
	var r Rules
	var errs []error
	for _, list := range []struct {
		name string
		from []string
		to   *[]pattern
	}{{"allow", c.Allow, &r.allow}, {"deny", c.Deny, &r.deny}} {
		for i, text := range list.from {
			p, err := parsePattern(text)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s[%d]: %w", list.name, i, err))
			}
			*list.to = append(*list.to, p)
		}
	}
	return r, errors.Join(errs...)
}

// Validate checks all that can be checked without reading files.
func (c Config) Validate() error {
	_, err := c.Rules()
	errs := []error{err}
	if c.KeysFile != "" && !filepath.IsAbs(c.KeysFile) {
		errs = append(errs, fmt.Errorf("keys_file: %q is not an absolute path", c.KeysFile))
	}
	for i, t := range c.TLS {
		if _, err := parsePattern(t.Engines); err != nil {
			errs = append(errs, fmt.Errorf("tls[%d].engines: %w", i, err))
		}
		if (t.CertFile == "") != (t.KeyFile == "") {
			errs = append(errs, fmt.Errorf("tls[%d].cert_file: it and key_file belong together", i))
		}
	}
	return errors.Join(errs...)
}
