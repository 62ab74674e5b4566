package kubernetes_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/provider/contract"
	"github.com/millrace/millrace/internal/provider/kubernetes/controlplane"
	"github.com/millrace/millrace/internal/provider/kubernetes/fakekubelet"
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
		t.Skip("MILLRACE_KUBERNETES does not name a folder with etcd, kube-apiserver and kube-scheduler: make test-kubernetes")
	}
	plane := startPlane(t, binaries)
	t.Run("contract", func(t *testing.T) {
		contract.Run(t, func(t *testing.T) contract.Subject { return newRealCluster(t, plane, 0).subject() })
	})
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
