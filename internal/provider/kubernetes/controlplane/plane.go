// Package controlplane is a real control plane of Kubernetes on this machine, without a cluster beneath: etcd,
// kube-apiserver with RBAC, kube-scheduler and, where they are asked for, controllers, as `make kubernetes` builds
// them, each a child process of its own. Pods are run by package fakekubelet. It also does to the API server what its
// users have to live with: it hangs, and it is gone for a while.
//
// Start reading at Plane.
package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/freeport"
	"github.com/millrace/millrace/internal/provider/kubernetes/coreclient"
	"github.com/millrace/millrace/internal/supervise"
)

// Config says what is run and where its files are.
type Config struct {
	Binaries string // the folder with etcd, kube-apiserver, kube-scheduler and kubectl
	Dir      string // gets data, keys, kubeconfigs and logs
	// Controllers runs kube-controller-manager, too: Deployments and StatefulSets get pods, pods of lost nodes are
	// evicted, budgets are counted, namespaces end. Nodes must then report.
	Controllers bool
	// Address is where the API server listens, for pods in networks of their own; loopback, if not given.
	Address string
	// Services are the addresses of Services; 10.96.0.0/24, if not given.
	Services string
}

// Plane runs until Stop. Its methods are for one goroutine.
type Plane struct {
	cfg   Config
	group *supervise.Group
	admin *rest.Config
	api   *coreclient.Client

	server supervise.Process
	etcd   string
}

// The children.
const (
	etcd      = "etcd"
	apiserver = "kube-apiserver"
	scheduler = "kube-scheduler"

	controllers = "kube-controller-manager"
)

// Start starts all of them, and returns once pods are scheduled.
func Start(ctx context.Context, cfg Config) (*Plane, error) {
	p := &Plane{cfg: cfg, group: supervise.NewGroup(filepath.Join(cfg.Dir, "logs"), func(supervise.Event) {})}
	if err := p.start(ctx); err != nil {
		p.Stop()
		return nil, fmt.Errorf("%w (logs are in %s)", err, filepath.Join(cfg.Dir, "logs"))
	}
	return p, nil
}

func (p *Plane) start(ctx context.Context) error {
	if err := p.startEtcd(); err != nil {
		return err
	}
	address, err := freeport.Address()
	if err != nil {
		return err
	}
	secrets, err := p.writeSecrets()
	if err != nil {
		return err
	}
	if p.cfg.Address != "" {
		_, port, _ := net.SplitHostPort(address)
		address = net.JoinHostPort(p.cfg.Address, port)
	}
	p.server = p.serverProcess(address, secrets)
	if err := p.group.Start(p.server); err != nil {
		return err
	}
	if err := p.connect(ctx, address, secrets.adminToken); err != nil {
		return err
	}
	kubeconfig, err := p.WriteKubeconfig("admin", p.admin, "default")
	if err != nil {
		return err
	}
	err = p.group.Start(supervise.Process{
		Name: scheduler, Path: filepath.Join(p.cfg.Binaries, scheduler),
		Args: []string{"--kubeconfig", kubeconfig, "--leader-elect=false", "--secure-port=0", "--bind-address=127.0.0.1"},
	})
	if err != nil || !p.cfg.Controllers {
		return err
	}
	return p.group.Start(supervise.Process{
		Name: controllers, Path: filepath.Join(p.cfg.Binaries, controllers),
		Args: []string{"--kubeconfig", kubeconfig, "--leader-elect=false", "--secure-port=0", "--bind-address=127.0.0.1",
			"--service-account-private-key-file", secrets.accountKey, "--use-service-account-credentials",
			"--root-ca-file", filepath.Join(secrets.dir, "apiserver.crt")},
	})
}

func (p *Plane) startEtcd() error {
	client, err := freeport.Address()
	if err != nil {
		return err
	}
	peer, err := freeport.Address()
	if err != nil {
		return err
	}
	p.etcd = "http://" + client
	return p.group.Start(supervise.Process{
		Name: etcd, Path: filepath.Join(p.cfg.Binaries, etcd),
		Args: []string{
			"--data-dir", filepath.Join(p.cfg.Dir, "etcd"), "--unsafe-no-fsync", "--log-level", "warn",
			"--listen-client-urls", p.etcd, "--advertise-client-urls", p.etcd,
			"--listen-peer-urls", "http://" + peer, "--initial-advertise-peer-urls", "http://" + peer,
			"--initial-cluster", "default=http://" + peer,
		},
	})
}

// serverProcess is an API server as clusters have it: RBAC, the usual admission, service accounts with tokens.
func (p *Plane) serverProcess(address string, s secrets) supervise.Process {
	host, port, _ := net.SplitHostPort(address)
	return supervise.Process{
		Name: apiserver, Path: filepath.Join(p.cfg.Binaries, apiserver),
		Args: []string{
			"--etcd-servers", p.etcd, "--bind-address", host, "--secure-port", port, "--advertise-address", host,
			"--cert-dir", s.dir, "--token-auth-file", s.tokens,
			"--authorization-mode", "Node,RBAC", "--anonymous-auth=false",
			"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", s.accountKey,
			"--service-account-signing-key-file", s.accountKey,
			"--service-cluster-ip-range", cmp.Or(p.cfg.Services, "10.96.0.0/24"),
			"--endpoint-reconciler-type", "none", "--profiling=false",
		},
	}
}

// connect waits for the API server. Its certificate, which it has made itself, is there once it listens.
func (p *Plane) connect(ctx context.Context, address, token string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	certificate := filepath.Join(p.cfg.Dir, "secrets", "apiserver.crt")
	var last error
	for {
		if p.group.Ends(etcd)+p.group.Ends(apiserver) > 3 {
			return fmt.Errorf("the control plane ends again and again: %w", last)
		}
		last = func() error {
			ca, err := os.ReadFile(certificate)
			if err != nil {
				return err
			}
			p.admin = &rest.Config{
				Host: "https://" + address, BearerToken: token, QPS: -1, Timeout: 10 * time.Second,
				TLSClientConfig: rest.TLSClientConfig{CAData: ca},
			}
			if p.api, err = coreclient.New(p.admin); err != nil {
				return err
			}
			return p.Ready(ctx)
		}()
		if last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the API server is not ready: %w", last)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Ready reports whether the API server serves.
func (p *Plane) Ready(ctx context.Context) error {
	return p.api.Get().AbsPath("/readyz").Do(ctx).Error()
}

// Admin is how an administrator reaches the API server.
func (p *Plane) Admin() *rest.Config { return rest.CopyConfig(p.admin) }

// Hang has the API server accept connections and answer nothing, until resume is called.
func (p *Plane) Hang() (resume func(), err error) {
	pid := p.group.PID(apiserver)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return nil, fmt.Errorf("stop the API server: %w", err)
	}
	return func() { _ = syscall.Kill(pid, syscall.SIGCONT) }, nil
}

// End ends the API server; what is in etcd stays. Begin starts it again.
func (p *Plane) End() { p.group.End(apiserver) }

// Begin starts the API server again and waits until it serves.
func (p *Plane) Begin(ctx context.Context) error {
	if err := p.group.Start(p.server); err != nil {
		return err
	}
	for {
		err := p.Ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the API server is not ready: %w", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Stop ends the processes; the files stay.
func (p *Plane) Stop() {
	now := make(chan struct{})
	time.AfterFunc(5*time.Second, func() { close(now) })
	p.group.Stop(now)
}
