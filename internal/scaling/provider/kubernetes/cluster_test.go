package kubernetes_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/provider"
	"github.com/millrace/millrace/internal/scaling/provider/contract"
	"github.com/millrace/millrace/internal/scaling/provider/kubernetes"
	"github.com/millrace/millrace/internal/scaling/provider/kubernetes/fakeapi"
	"github.com/millrace/millrace/internal/scaling/provider/kubernetes/fakekubelet"
)

// template is a pod as an operator writes it, for the nodes of one cluster.
const template = `
apiVersion: v1
kind: Pod
metadata:
  labels: {team: rl}
spec:
  terminationGracePeriodSeconds: 60
  nodeSelector: {cluster: CLUSTER}
  containers:
  - name: vllm
    image: vllm/vllm-openai
    resources: {limits: {nvidia.com/gpu: 1}}
`

// cluster is an API server with a namespace, nodes and a kubelet for one test: in memory, or a real one.
type cluster struct {
	api        *fakeapi.Server // nil: a real one
	name       string          // of the namespace
	node       string
	kubeconfig string       // with the provider's rights
	account    *rest.Config // the same, of a real one
	kubelet    *fakekubelet.Kubelet
	hang       func(testing.TB) (resume func())
}

// newCluster is a cluster in memory. Nobody's rights are checked there.
func newCluster(t testing.TB, endsAfter time.Duration) *cluster {
	t.Helper()
	api := fakeapi.New(t)
	c := &cluster{
		api: api, name: "rollouts", kubeconfig: writeKubeconfig(t, api.Settings()),
		hang: func(testing.TB) func() { return api.Hang() },
	}
	c.begin(t, fakekubelet.Config{API: api.Settings(), EndsAfter: endsAfter, Every: 5 * time.Millisecond})
	return c
}

// begin runs the kubelet of one node until the test ends. Engines that are told to end take a while.
func (c *cluster) begin(t testing.TB, cfg fakekubelet.Config) {
	t.Helper()
	cfg.Namespace = c.name
	kubelet, err := fakekubelet.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.kubelet, c.node = kubelet, c.name+"-gpu-1"
	c.addNode(t, c.node)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { kubelet.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
}

func (c *cluster) addNode(t testing.TB, name string) {
	t.Helper()
	if err := c.kubelet.AddNode(t.Context(), name, 100, map[string]string{"cluster": c.name}); err != nil {
		t.Fatal(err)
	}
}

// open is the provider of a deployment, as a worker makes it.
func (c *cluster) open(t testing.TB, deployment string, change ...func(*kubernetes.Config)) provider.Provider {
	t.Helper()
	cfg := kubernetes.Config{
		Template:   write(t, "pod.yaml", strings.ReplaceAll(template, "CLUSTER", c.name)),
		Kubeconfig: c.kubeconfig, Namespace: c.name, Grace: rollout.Duration(2 * time.Second),
	}
	for _, f := range change {
		f(&cfg)
	}
	p, err := kubernetes.New(cfg, deployment, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// subject is what the contract needs of a cluster.
func (c *cluster) subject() contract.Subject {
	return contract.Subject{
		Open: func(t testing.TB, deployment string) provider.Provider { return c.open(t, deployment) },
		Running: func(_ testing.TB, deployment string, id rollout.EngineID) int {
			return c.kubelet.Running(engine(deployment, id))
		},
		Fail: func(_ testing.TB, deployment string, id rollout.EngineID) {
			c.kubelet.Kill(engine(deployment, id), true)
		},
		Full: func(t testing.TB) func() {
			c.must(t, c.kubelet.Cordon(t.Context(), c.node, true))
			return func() { c.must(t, c.kubelet.Cordon(t.Context(), c.node, false)) }
		},
		Hang: c.hang, // of a real API server: TestRealAPIServer, since others use it at the same time
	}
}

func (c *cluster) must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pod is the pod of an engine, as the API server has it; nil: there is none.
func (c *cluster) pod(t testing.TB, deployment string, id rollout.EngineID) *core.Pod {
	t.Helper()
	pods, err := c.kubelet.Pods(t.Context())
	c.must(t, err)
	for i := range pods {
		if engine(deployment, id)(&pods[i]) {
			return &pods[i]
		}
	}
	return nil
}

// await lists until an engine is as it is to be. ok gets the zero Instance where it is not listed. A scheduler that has
// lost its API server for a minute takes another one to come back.
func (c *cluster) await(
	t testing.TB, p provider.Provider, id rollout.EngineID, what string, ok func(provider.Instance) bool,
) provider.Instance {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; {
		all, err := p.List(t.Context())
		c.must(t, err)
		var e provider.Instance
		for _, listed := range all {
			if listed.ID == id {
				e = listed
			}
		}
		if ok(e) {
			return e
		}
		if time.Now().After(deadline) {
			t.Fatalf("engine %s is not %s: %+v", id, what, all)
		}
		time.Sleep(20 * time.Millisecond) // the cluster's clock is not ours
	}
}

func (c *cluster) running(t testing.TB, p provider.Provider, id rollout.EngineID) provider.Instance {
	t.Helper()
	return c.await(t, p, id, "running", func(e provider.Instance) bool {
		return e.State == enginestate.EngineRunning && e.URL != ""
	})
}

func (c *cluster) gone(t testing.TB, p provider.Provider, id rollout.EngineID) {
	t.Helper()
	c.await(t, p, id, "gone", func(e provider.Instance) bool { return e.ID == "" })
}

func (c *cluster) start(t testing.TB, p provider.Provider, ids ...rollout.EngineID) {
	t.Helper()
	for _, id := range ids {
		c.must(t, p.Start(t.Context(), id))
	}
	for _, id := range ids {
		c.running(t, p, id)
	}
}

func write(t testing.TB, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func writeKubeconfig(t testing.TB, settings *rest.Config) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "kubeconfig")
	file := clientcmdapi.NewConfig()
	file.Clusters["it"] = &clientcmdapi.Cluster{Server: settings.Host, CertificateAuthorityData: settings.CAData}
	file.AuthInfos["it"] = &clientcmdapi.AuthInfo{Token: settings.BearerToken}
	file.Contexts["it"] = &clientcmdapi.Context{Cluster: "it", AuthInfo: "it"}
	file.CurrentContext = "it"
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// engine selects the pod of an engine of a deployment.
func engine(deployment string, id rollout.EngineID) func(*core.Pod) bool {
	return func(pod *core.Pod) bool {
		return pod.Annotations["millrace.dev/deployment-name"] == deployment &&
			pod.Annotations["millrace.dev/engine-id"] == string(id)
	}
}
