package api

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/face/access"
)

// Config is the settings of the server.
type Config struct {
	// Name is what people call the deployment; empty: it has none.
	Name string
	// Listen is the address that the server will listen on. Anything but a loopback address needs Tokens.
	Listen string
	// Tokens are the bearer tokens accepted; none means that everybody on this machine may do everything.
	Tokens []string
	// TLS is the certificate; nil: plain HTTP.
	TLS *tls.Config
	// Access holds grants for more than the operators in Tokens. It then includes Tokens, and every call needs a token.
	Access *access.Grants
	// MaxBodyBytes bounds a request's body.
	MaxBodyBytes int64
	// MaxWait bounds a long poll, whatever the client asks for.
	MaxWait time.Duration
	// Retention is how long an ended run is kept to be shown; 0: until it is deleted by hand.
	Retention time.Duration
	// Limits bounds what callers may have.
	Limits Limits
	// TrustedProxies are those whose X-Forwarded-For names the client.
	TrustedProxies []netip.Prefix
	// Version is the service's own version, shown in the OpenAPI document.
	Version string
}

// minTokenBytes keeps tokens from being guessed.
const minTokenBytes = 16

// Validate reports why a server with this configuration must not start.
func (c Config) Validate() error {
	var faults []error
	if len(c.Tokens) == 0 && c.Access == nil && !loopback(c.Listen) {
		faults = append(faults, fmt.Errorf("listen address %q can be reached from other machines, and there is no token: "+
			"set MILLRACE_TOKENS or auth.tokens_file, or listen on 127.0.0.1", c.Listen))
	}
	for i, token := range c.Tokens {
		if len(token) < minTokenBytes || strings.TrimSpace(token) != token {
			faults = append(faults, fmt.Errorf("token %d: use at least %d characters without spaces around, such as the "+
				"output of: openssl rand -hex 24", i+1, minTokenBytes))
		}
	}
	return errors.Join(faults...)
}

// loopback reports whether only this machine can reach the address. An empty host means every interface.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	return loopbackHost(host)
}

func loopbackHost(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
