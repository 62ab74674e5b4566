package kubernetes

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// credentials authenticate this process to an API server.
type credentials struct {
	user   identity
	server *apiServer

	mu   sync.Mutex
	said *pluginAnswer // nil: the plugin is to be asked
}

// errCredentials is returned when there are no usable credentials.
var errCredentials = errors.New("credentials")

// authorize adds the token, which may be another one than before: files of tokens are replaced, and plugins' end.
func (c *credentials) authorize(request *http.Request) error {
	token := c.user.Token
	if c.user.TokenFile != "" {
		text, err := os.ReadFile(c.user.TokenFile)
		if err != nil {
			return fmt.Errorf("%w: %w", errCredentials, err)
		}
		token = strings.TrimSpace(string(text))
	}
	if c.user.Exec != nil {
		said, err := c.ask(request.Context())
		if err != nil {
			return err
		}
		token = cmp.Or(said.Token, token)
	}
	switch {
	case token != "":
		request.Header.Set("Authorization", "Bearer "+token)
	case c.user.Username != "":
		request.SetBasicAuth(c.user.Username, c.user.Password)
	}
	return nil
}

// certificate is the client's; none is an empty one.
func (c *credentials) certificate(ctx context.Context) (*tls.Certificate, error) {
	cert, key := c.user.CertData, c.user.KeyData
	if c.user.Exec != nil {
		said, err := c.ask(ctx)
		if err != nil {
			return nil, err
		}
		cert, key = []byte(said.ClientCertificateData), []byte(said.ClientKeyData)
	}
	var err error
	for _, part := range []struct {
		text *[]byte
		path string
	}{{&cert, c.user.CertFile}, {&key, c.user.KeyFile}} {
		if len(*part.text) == 0 && part.path != "" && err == nil {
			*part.text, err = os.ReadFile(part.path)
		}
	}
	if err != nil || len(cert) == 0 {
		return &tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	return &pair, err
}

// ask runs the plugin, unless what it said last still holds.
func (c *credentials) ask(ctx context.Context) (*pluginAnswer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said != nil && (c.said.ExpirationTimestamp.IsZero() || time.Now().Before(c.said.ExpirationTimestamp)) {
		return c.said, nil
	}
	said, err := c.user.Exec.run(ctx, c.server)
	if err != nil {
		return nil, fmt.Errorf("%w: the kubeconfig's plugin %s: %w", errCredentials, c.user.Exec.Command, err)
	}
	c.said = said
	return said, nil
}

// forget has the plugin asked again.
func (c *credentials) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said = nil
}
