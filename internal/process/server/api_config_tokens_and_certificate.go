package server

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/face/access"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/process/reload"
)

// apiConfig is the part of the configuration that the HTTP API goes by.
func apiConfig(s config.Service, version string) api.Config {
	l := s.Limits
	cfg := api.Config{Listen: s.Listen, Name: s.Name, MaxBodyBytes: l.MaxBodyBytes, MaxWait: time.Duration(l.ClaimWait),
		Version: version, Retention: s.Retention.Std(), Limits: l.Limits}
	for _, network := range s.Auth.TrustedProxies {
		if prefix, err := netip.ParsePrefix(network); err == nil { // config.ReadService has checked it
			cfg.TrustedProxies = append(cfg.TrustedProxies, prefix)
		}
	}
	for _, t := range s.Tokens {
		cfg.Tokens = append(cfg.Tokens, t.Reveal())
	}
	return cfg
}

// secure fills in who may call the API, and its certificate, from files that are read again.
func secure(cfg config.Service, c *api.Config, files *reload.Files) error {
	if file := cfg.Auth.TokensFile; file != "" {
		c.Access = access.NewGrants(api.GrantsOf(c.Tokens)...)
		read := func() error {
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			grants, err := access.ReadTokens(file, data)
			if err != nil {
				return err
			}
			c.Access.Replace(grants)
			return nil
		}
		if err := files.Read("tokens", read, file); err != nil {
			return err
		}
	}
	if !cfg.TLS.Enabled() {
		return nil
	}
	current := &atomic.Pointer[tls.Config]{}
	read := func() error {
		loaded, err := certificateOf(cfg.TLS)
		if err == nil {
			current.Store(loaded)
		}
		return err
	}
	names := []string{cfg.TLS.CertFile, cfg.TLS.KeyFile}
	if cfg.TLS.ClientCAFile != "" {
		names = append(names, cfg.TLS.ClientCAFile)
	}
	if err := files.Read("certificates", read, names...); err != nil {
		return err
	}
	c.TLS = &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return current.Load(), nil },
	}
	return nil
}

// certificateOf is what a connection is given from now on.
func certificateOf(t config.TLS) (*tls.Config, error) {
	certificate, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("tls.cert_file %s and tls.key_file %s: %w", t.CertFile, t.KeyFile, err)
	}
	loaded := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate},
		NextProtos: []string{"http/1.1"}}
	if t.ClientCAFile == "" {
		return loaded, nil
	}
	pem, err := os.ReadFile(t.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("tls.client_ca_file: %w", err)
	}
	loaded.ClientCAs, loaded.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !loaded.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("tls.client_ca_file %s holds no certificate in PEM", t.ClientCAFile)
	}
	return loaded, nil
}
