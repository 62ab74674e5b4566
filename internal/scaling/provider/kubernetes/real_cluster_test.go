package kubernetes_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/scaling/provider"
	"github.com/millrace/millrace/internal/scaling/provider/contract"
	"github.com/millrace/millrace/internal/scaling/provider/kubernetes"
	"github.com/millrace/millrace/internal/scaling/provider/kubernetes/coreclient"
	"github.com/millrace/millrace/internal/scaling/provider/kubernetes/fakekubelet"
)

// rulesFile is what the chart makes roles of.
const rulesFile = "../../../../deploy/helm/millrace/files/kubernetes-provider-rules.yaml"

// clusters counts the namespaces of the real clusters of a test process.
var clusters atomic.Int64

// TestRealAPIServer is the whole suite against a real API server with RBAC, for whose pods the tests' own kubelet and
// scheduler do their part. The provider has the rights of the chart's service account. What is made in the cluster
// stays there: it is to be thrown away.
func TestRealAPIServer(t *testing.T) {
	kubeconfig := os.Getenv("MILLRACE_TEST_KUBECONFIG")
	if kubeconfig == "" {
		t.Skip("MILLRACE_TEST_KUBECONFIG names no cluster: make test-kubernetes")
	}
	plane := connectPlane(t, kubeconfig)
	t.Run("contract", func(t *testing.T) {
		contract.Run(t, func(t *testing.T) contract.Subject { return newRealCluster(t, plane, 0).subject() })
	})
	for _, tt := range disruptions {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, newRealCluster(t, plane, ending)) })
	}
	t.Run("the template of docs/kubernetes.md is taken", func(t *testing.T) {
		c := newRealCluster(t, plane, 0)
		path, err := filepath.Abs("../../../../deploy/kubernetes/engine-pod.yaml")
		c.must(t, err)
		p := c.open(t, "ours", func(cfg *kubernetes.Config) { cfg.Template = path })
		c.must(t, c.kubelet.Cordon(t.Context(), c.node, true))
		c.must(t, p.Start(t.Context(), "scaled-1"))
		c.await(t, p, "scaled-1", "looked at by the scheduler", func(e provider.Instance) bool {
			return strings.Contains(e.Reason, "Unschedulable")
		})
		c.must(t, p.Stop(t.Context(), "scaled-1"))
	})
	t.Run("what the API server refuses says what to do", func(t *testing.T) { refused(t, plane) })
	t.Run("an API server that hangs", func(t *testing.T) {
		c := newRealCluster(t, plane, 0)
		link := c.linked(t, plane)
		c.start(t, c.open(t, "ours"), "scaled-1")
		c.unavailable(t, outage(t)/10, link.hang())
		c.afterOutage(t)
	})
	t.Run("an API server that is gone for a while", func(t *testing.T) {
		c := newRealCluster(t, plane, 0)
		link := c.linked(t, plane)
		c.start(t, c.open(t, "ours"), "scaled-1")
		c.unavailable(t, outage(t), link.cut(t))
		c.afterOutage(t)
	})
}

// outage is how long the API server is not there: a minute, unless it is said otherwise.
func outage(t *testing.T) time.Duration {
	t.Helper()
	text := cmp.Or(os.Getenv("MILLRACE_KUBERNETES_OUTAGE"), "1m")
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// refused has what only a real API server checks: rights, namespaces, quotas and pods.
func refused(t *testing.T, plane *administrator) {
	c := newRealCluster(t, plane, 0)
	rights, err := readRules(rulesFile)
	c.must(t, err)
	without := func(name string, drop func(*rules)) func(*kubernetes.Config) {
		rights, err := readRules(rulesFile)
		c.must(t, err)
		drop(&rights)
		account, err := plane.addAccount(t.Context(), c.name, name, rights)
		c.must(t, err)
		return func(cfg *kubernetes.Config) { cfg.Kubeconfig = writeKubeconfig(t, account) }
	}
	templated := func(old, with string) func(*kubernetes.Config) {
		text := strings.ReplaceAll(strings.ReplaceAll(template, "CLUSTER", c.name), old, with)
		return func(cfg *kubernetes.Config) { cfg.Template = write(t, "pod.yaml", text) }
	}
	for _, tt := range []struct {
		name, says string
		change     func(*kubernetes.Config)
	}{
		{"no rights", "rights of docs/kubernetes.md",
			without("none", func(r *rules) { *r = rules{} })},
		{"another's namespace", "rights of docs/kubernetes.md",
			func(cfg *kubernetes.Config) { cfg.Namespace = "kube-system" }},
		{"no image", "change the pod template", templated("vllm/vllm-openai", `""`)},
		{"a service account that is not there", "change the pod template or the policy",
			templated("spec:", "spec:\n  serviceAccountName: nobody")},
		{"a token that nobody has", "check the service account", func(cfg *kubernetes.Config) {
			unknown := &rest.Config{Host: plane.settings.Host, BearerToken: "none",
				TLSClientConfig: rest.TLSClientConfig{CAData: plane.settings.CAData}}
			cfg.Kubeconfig = writeKubeconfig(t, unknown)
		}},
	} {
		err := c.open(t, "ours", tt.change).Start(t.Context(), "scaled-1")
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v; want it to say %q", tt.name, err, tt.says)
		}
	}
	// Each right is needed: without it one of start, stop and list is refused, or nodes are not read.
	for i, verb := range rights.Role[0].Verbs {
		p := c.open(t, "ours", without(verb, func(r *rules) {
			r.Role[0].Verbs = slices.Delete(slices.Clone(rights.Role[0].Verbs), i, i+1)
		}))
		id := rollout.EngineID("scaled-" + verb)
		_, listed := p.List(t.Context())
		err := errors.Join(listed, p.Start(t.Context(), id), p.Stop(t.Context(), id))
		if err == nil || !strings.Contains(err.Error(), "rights of docs/kubernetes.md") {
			t.Errorf("without the right to %s pods: %v", verb, err)
		}
		c.must(t, c.open(t, "ours").Stop(t.Context(), id))
	}
}

func connectPlane(t *testing.T, kubeconfig string) *administrator {
	t.Helper()
	settings, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	settings.QPS = -1
	api, err := coreclient.New(settings)
	if err != nil {
		t.Fatal(err)
	}
	return &administrator{settings, api}
}

// newRealCluster is a namespace of its own, with a node and a service account that has the provider's rights.
func newRealCluster(t testing.TB, plane *administrator, endsAfter time.Duration) *cluster {
	t.Helper()
	c := &cluster{name: fmt.Sprintf("rollouts-%d", clusters.Add(1))}
	c.must(t, plane.addNamespace(t.Context(), c.name))
	rights, err := readRules(rulesFile)
	c.must(t, err)
	account, err := plane.addAccount(t.Context(), c.name, "millrace-worker", rights)
	c.must(t, err)
	c.account, c.kubeconfig = account, writeKubeconfig(t, account)
	c.begin(t, fakekubelet.Config{API: plane.settings, EndsAfter: endsAfter, Every: 200 * time.Millisecond})
	t.Cleanup(func() { _ = c.kubelet.RemoveNode(context.Background(), c.node) })
	return c
}

// linked has the provider reach the API server through a link that can be cut.
func (c *cluster) linked(t *testing.T, plane *administrator) *link {
	t.Helper()
	server, err := url.Parse(plane.settings.Host)
	c.must(t, err)
	l := &link{to: server.Host}
	l.listen(t, "127.0.0.1:0")
	t.Cleanup(func() { l.close() })
	c.account.Host = "https://" + l.listener.Addr().String()
	c.kubeconfig = writeKubeconfig(t, c.account)
	return l
}

// link passes connections on to an address.
type link struct {
	to       string
	listener net.Listener

	mu      sync.Mutex
	conns   []net.Conn
	hanging sync.RWMutex // held by whoever has nothing passed on
}

func (l *link) listen(t *testing.T, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	l.listener = listener
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", l.to)
			if err != nil {
				_ = from.Close()
				continue
			}
			l.mu.Lock()
			l.conns = append(l.conns, from, to)
			l.mu.Unlock()
			go l.pass(from, to)
			go l.pass(to, from)
		}
	}()
}

// pass passes on what comes, except while the link hangs.
func (l *link) pass(from, to net.Conn) {
	defer to.Close()
	for part := make([]byte, 32<<10); ; {
		n, err := from.Read(part)
		l.hanging.RLock()
		_, wrong := to.Write(part[:n])
		l.hanging.RUnlock()
		if err != nil || wrong != nil {
			return
		}
	}
}

func (l *link) hang() (resume func()) {
	l.hanging.Lock()
	return l.hanging.Unlock
}

// cut ends all connections and refuses others, until back is called.
func (l *link) cut(t *testing.T) (back func()) {
	l.close()
	return func() { l.listen(t, l.listener.Addr().String()) }
}

func (l *link) close() {
	_ = l.listener.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		_ = conn.Close()
	}
}
