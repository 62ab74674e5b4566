//go:build linux

package podsandbox

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/provider/kubernetes/coreclient"
	"github.com/millrace/millrace/internal/provider/kubernetes/fakekubelet"
)

// Config says what pods are run with.
type Config struct {
	API *rest.Config // with the rights of an administrator
	// Bridge is the network device that all pods are on, with the address by which they reach this machine. NewBridge
	// makes it.
	Bridge  string
	Gateway netip.Prefix
	// APIServer is where pods find the API server, host:port.
	APIServer string
	Images    map[string]Image
	Dir       string // gets roots, volumes and logs
}

// Sandboxes is a Runtime that runs each pod in a sandbox.
type Sandboxes struct {
	cfg  Config
	api  *coreclient.Client
	mu   sync.Mutex
	pods map[*pod]bool
}

var _ fakekubelet.Runtime = (*Sandboxes)(nil)

// New has no pods yet. Its bridge must be there.
func New(cfg Config) (*Sandboxes, error) {
	api, err := coreclient.New(cfg.API)
	if err != nil {
		return nil, err
	}
	return &Sandboxes{cfg: cfg, api: api, pods: map[*pod]bool{}}, nil
}

// NewBridge makes the bridge of a network of pods, and routes a range of addresses of Services to this machine, where
// package serviceproxy listens on them. remove takes both away.
func NewBridge(name string, gateway netip.Prefix, services netip.Prefix) (remove func(), err error) {
	remove = func() {
		_ = ip("route", "del", "local", services.String(), "dev", "lo")
		_ = ip("link", "del", name)
	}
	for _, words := range [][]string{
		{"link", "add", name, "type", "bridge"},
		{"addr", "add", gateway.String(), "dev", name},
		{"link", "set", name, "up"},
		{"link", "set", "lo", "up"},
		{"route", "add", "local", services.String(), "dev", "lo"},
	} {
		if err := ip(words...); err != nil {
			remove()
			return nil, err
		}
	}
	return remove, nil
}

func ip(words ...string) error {
	if out, err := exec.Command("ip", words...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(words, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Start begins to run a pod, and returns before it does.
func (s *Sandboxes) Start(manifest *core.Pod, address netip.Addr) (fakekubelet.Container, error) {
	dir := filepath.Join(s.cfg.Dir, "pods", string(manifest.UID))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(s.cfg.Dir, "logs", manifest.Namespace+"_"+manifest.Name+".log"),
		os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &pod{
		Sandboxes: s, manifest: manifest, address: address, dir: dir, log: log, cancel: cancel,
		network: "pod-" + string(manifest.UID), ended: make(chan struct{}), stopped: make(chan struct{}),
		folders: map[string]string{},
	}
	p.status = p.pending("ContainerCreating", "")
	s.mu.Lock()
	s.pods[p] = true
	s.mu.Unlock()
	go func() {
		p.run(ctx)
		s.mu.Lock()
		delete(s.pods, p)
		s.mu.Unlock()
		close(p.ended)
	}()
	return p, nil
}

// Hosts has every pod find these names, as a cluster's DNS would answer.
func (s *Sandboxes) Hosts(addresses map[string][]netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.pods {
		p.writeHosts(addresses)
	}
}

// volumesEvery is how often ConfigMaps, Secrets and tokens are read again.
const volumesEvery = 2 * time.Second
