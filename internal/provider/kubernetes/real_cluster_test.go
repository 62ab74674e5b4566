package kubernetes_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/provider"
	"github.com/millrace/millrace/internal/provider/contract"
	"github.com/millrace/millrace/internal/provider/kubernetes"
	"github.com/millrace/millrace/internal/provider/kubernetes/controlplane"
	"github.com/millrace/millrace/internal/provider/kubernetes/fakekubelet"
	"github.com/millrace/millrace/internal/rollout"
)

// rulesFile is what the chart makes roles of.
const rulesFile = "../../../deploy/helm/millrace/files/kubernetes-provider-rules.yaml"

// clusters counts the namespaces of the real clusters of a test process.
var clusters atomic.Int64

// TestRealAPIServer is the whole suite against etcd, kube-apiserver with RBAC and kube-scheduler. The provider has the
// rights of the chart's service account.
func TestRealAPIServer(t *testing.T) {
	binaries := os.Getenv("MILLRACE_KUBERNETES")
	if binaries == "" {
		t.Skip("MILLRACE_KUBERNETES names no folder with a control plane: make test-kubernetes")
	}
	plane := startPlane(t, binaries)
	t.Run("contract", func(t *testing.T) {
		contract.Run(t, func(t *testing.T) contract.Subject { return newRealCluster(t, plane, 0).subject() })
	})
	for _, tt := range disruptions {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, newRealCluster(t, plane, ending)) })
	}
	t.Run("the template of docs/kubernetes.md is taken", func(t *testing.T) {
		c := newRealCluster(t, plane, 0)
		path, err := filepath.Abs("../../../deploy/kubernetes/engine-pod.yaml")
		c.must(t, err)
		p := c.open(t, "ours", func(cfg *kubernetes.Config) { cfg.Template = path })
		c.must(t, p.Start(t.Context(), "scaled-1"))
		c.await(t, p, "scaled-1", "looked at by the scheduler", func(e provider.Instance) bool {
			return strings.Contains(e.Reason, "Unschedulable") // its volumes and its GPU are not there
		})
		c.must(t, p.Stop(t.Context(), "scaled-1"))
	})
	t.Run("what the API server refuses says what to do", func(t *testing.T) { refused(t, plane) })
	t.Run("an API server that hangs", func(t *testing.T) {
		c := newRealCluster(t, plane, 0)
		c.start(t, c.open(t, "ours"), "scaled-1")
		resume, err := plane.Hang()
		c.must(t, err)
		c.unavailable(t, outage(t)/10, resume)
		c.afterOutage(t)
	})
	t.Run("an API server that is gone for a while", func(t *testing.T) {
		c := newRealCluster(t, plane, 0)
		c.start(t, c.open(t, "ours"), "scaled-1")
		plane.End()
		c.unavailable(t, outage(t), func() { c.must(t, plane.Begin(t.Context())) })
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
func refused(t *testing.T, plane *controlplane.Plane) {
	c := newRealCluster(t, plane, 0)
	rights, err := controlplane.ReadRules(rulesFile)
	c.must(t, err)
	without := func(name string, drop func(*controlplane.Rules)) func(*kubernetes.Config) {
		rules, err := controlplane.ReadRules(rulesFile)
		c.must(t, err)
		drop(&rules)
		account, err := plane.AddAccount(t.Context(), c.name, name, rules)
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
			without("none", func(r *controlplane.Rules) { *r = controlplane.Rules{} })},
		{"another's namespace", "rights of docs/kubernetes.md",
			func(cfg *kubernetes.Config) { cfg.Namespace = "kube-system" }},
		{"no image", "change the pod template", templated("vllm/vllm-openai", `""`)},
		{"a service account that is not there", "change the pod template or the policy",
			templated("spec:", "spec:\n  serviceAccountName: nobody")},
		{"a token that nobody has", "check the service account", func(cfg *kubernetes.Config) {
			unknown := plane.Admin()
			unknown.BearerToken = "none"
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
		p := c.open(t, "ours", without(verb, func(r *controlplane.Rules) {
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

func startPlane(t *testing.T, binaries string) *controlplane.Plane {
	t.Helper()
	began := time.Now()
	plane, err := controlplane.Start(t.Context(), controlplane.Config{Binaries: binaries, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plane.Stop)
	t.Logf("the control plane was ready after %s", time.Since(began).Round(100*time.Millisecond))
	return plane
}

// newRealCluster is a namespace of its own, with a node and a service account that has the provider's rights.
func newRealCluster(t testing.TB, plane *controlplane.Plane, endsAfter time.Duration) *cluster {
	t.Helper()
	c := &cluster{name: fmt.Sprintf("rollouts-%d", clusters.Add(1))}
	c.must(t, plane.AddNamespace(t.Context(), c.name))
	rules, err := controlplane.ReadRules(rulesFile)
	c.must(t, err)
	account, err := plane.AddAccount(t.Context(), c.name, "millrace-worker", rules)
	c.must(t, err)
	c.kubeconfig = writeKubeconfig(t, account)
	c.begin(t, endsAfter, fakekubelet.Config{API: plane.Admin(), Every: 200 * time.Millisecond})
	t.Cleanup(func() { _ = c.kubelet.RemoveNode(context.Background(), c.node) })
	return c
}
