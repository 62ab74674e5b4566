package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/kit/termtext"
	"github.com/millrace/millrace/internal/process/connections"
)

// healthOptions are the flags of `millrace health`.
type healthOptions struct {
	service  serviceFlags
	address  string
	live     bool
	timeout  time.Duration
	certFile string
	keyFile  string
}

func newHealthCommand(env environment) *cobra.Command {
	var o healthOptions
	cmd := &cobra.Command{
		Use:       "health [server|worker]",
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"server", "worker"},
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), env, strings.Join(args, ""))
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.service.file, "config", "c", "", "service configuration (YAML; default $MILLRACE_CONFIG)")
	f.StringVar(&o.address, "address", "", "ask here instead, http://host:port or https://host:port")
	f.BoolVar(&o.live, "live", false, "ask whether it lives, not whether it is ready")
	f.DurationVar(&o.timeout, "timeout", 4*time.Second, "how long it may take to answer")
	f.StringVar(&o.certFile, "cert-file", "", "certificate to show, PEM, where the server has tls.client_ca_file")
	f.StringVar(&o.keyFile, "key-file", "", "its key, PEM")
	return cmd
}

// errNotReady is a process that answers, and is not ready.
var errNotReady = errors.New("not ready")

func (o healthOptions) run(ctx context.Context, env environment, which string) error {
	if o.timeout <= 0 {
		return usage("--timeout %s: want a time, such as 4s", o.timeout)
	}
	cfg, err := o.service.service(env)
	if err != nil {
		return err
	}
	client, err := o.client(env, cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	var faults []error
	asked := 0
	for _, p := range o.processes(cfg, which) {
		answer, err := o.ask(ctx, client, p.url)
		if which == "" && o.address == "" && errors.Is(err, syscall.ECONNREFUSED) {
			continue // the machine has the other one
		}
		asked++
		if err != nil {
			faults = append(faults, fmt.Errorf("the %s at %s: %w", p.name, p.url, err))
			continue
		}
		env.Say("the %s at %s: %s", p.name, p.url, answer)
	}
	if asked == 0 {
		faults = append(faults, fmt.Errorf("this machine %w: neither a server nor a worker is where the configuration has "+
			"them listen; start one, or name it with --address", connections.ErrNoAnswer))
	}
	return errors.Join(faults...)
}

// probed is a process to ask.
type probed struct{ name, url string }

// processes is whom to ask, and where.
func (o healthOptions) processes(cfg config.Service, which string) []probed {
	path := "/readyz"
	if o.live {
		path = "/healthz"
	}
	if o.address != "" {
		name := cmp.Or(which, "process")
		return []probed{{name, strings.TrimSuffix(o.address, "/") + path}}
	}
	scheme := "http://"
	if cfg.TLS.Enabled() {
		scheme = "https://"
	}
	var all []probed
	if which != "worker" {
		all = append(all, probed{"server", scheme + reachable(cfg.Listen) + path})
	}
	if which == "worker" || which == "" && cfg.Worker.Listen != "" {
		all = append(all, probed{"worker", "http://" + reachable(cfg.Worker.Listen) + path})
	}
	return all
}

// reachable is where a process is reached on its own machine that listens on an address, which may be every interface.
func reachable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return listen
}

// ask is what a process answers, which must be 200.
func (o healthOptions) ask(ctx context.Context, client *http.Client, address string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", usage("%v", err)
	}
	resp, err := client.Do(req)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "", fmt.Errorf("%w within %s", connections.ErrNoAnswer, o.timeout)
	case err != nil:
		if failed := (*url.Error)(nil); errors.As(err, &failed) {
			err = failed.Err // the address is said already
		}
		return "", fmt.Errorf("%w: %w", connections.ErrNoAnswer, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	text := termtext.Line(string(bytes.TrimSpace(body)))
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %w", connections.ErrNoAnswer, err)
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("%w: status %d, %s", errNotReady, resp.StatusCode, text)
	}
	return text, nil
}

// client reaches the processes of this machine. A server's certificate is for the name that others reach it under, not
// for loopback: on loopback it must be the one that its configuration names.
func (o healthOptions) client(env environment, cfg config.Service) (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if own, ok := env.HTTP.Transport.(*http.Transport); ok {
		transport = own.Clone()
	}
	transport.Proxy, transport.DisableKeepAlives = nil, true
	if transport.TLSClientConfig == nil {
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if (o.certFile == "") != (o.keyFile == "") {
		return nil, usage("--cert-file and --key-file belong together: set both, or none")
	}
	if o.certFile != "" {
		shown, err := tls.LoadX509KeyPair(o.certFile, o.keyFile)
		if err != nil {
			return nil, usage("--cert-file, --key-file: %v", err)
		}
		transport.TLSClientConfig.Certificates = []tls.Certificate{shown}
	}
	if cfg.TLS.Enabled() && o.address == "" {
		transport.TLSClientConfig.InsecureSkipVerify = true // and instead:
		transport.TLSClientConfig.VerifyPeerCertificate = func(shown [][]byte, _ [][]*x509.Certificate) error {
			want, err := tls.LoadX509KeyPair(cfg.TLS.CertFile, cfg.TLS.KeyFile)
			if err != nil {
				return err
			}
			if len(shown) == 0 || !bytes.Equal(shown[0], want.Certificate[0]) {
				return fmt.Errorf("it shows another certificate than %s", cfg.TLS.CertFile)
			}
			return nil
		}
	}
	return &http.Client{Transport: transport}, nil
}
