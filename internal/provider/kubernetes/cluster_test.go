package kubernetes_test

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/millrace/millrace/internal/provider"
	"github.com/millrace/millrace/internal/provider/kubernetes"
	"github.com/millrace/millrace/internal/provider/kubernetes/fakeapi"
	"github.com/millrace/millrace/internal/provider/kubernetes/fakekubelet"
	"github.com/millrace/millrace/internal/rollout"
)

const (
	namespace = "rollouts"
	node      = "gpu-node"
)

// template is a pod as an operator writes it.
const template = `
apiVersion: v1
kind: Pod
metadata:
  labels: {team: rl}
spec:
  containers:
  - name: vllm
    image: vllm/vllm-openai
    resources: {limits: {nvidia.com/gpu: 1}}
`

// cluster is an API server in memory with a kubelet that runs nothing, on one node.
type cluster struct {
	api        *fakeapi.Server
	kubelet    *fakekubelet.Kubelet
	kubeconfig string
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{api: fakeapi.New(t)}
	c.kubeconfig = writeKubeconfig(t, c.api.Settings())
	kubelet, err := fakekubelet.New(fakekubelet.Config{
		API: c.api.Settings(), Runtime: fakekubelet.Nothing{}, IPs: netip.MustParseAddr("10.0.0.1"), Binds: true,
		Every: 5 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	c.kubelet = kubelet
	if err := kubelet.AddNode(t.Context(), node, 100, nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { kubelet.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return c
}

// open is the provider of a deployment, as a worker makes it.
func (c *cluster) open(t testing.TB, deployment string, change ...func(*kubernetes.Config)) provider.Provider {
	t.Helper()
	cfg := kubernetes.Config{
		Template: write(t, "pod.yaml", template), Kubeconfig: c.kubeconfig, Namespace: namespace,
	}
	for _, f := range change {
		f(&cfg)
	}
	p, err := kubernetes.New(cfg, deployment, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
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

// engine selects the pod of an engine; that of any, where the id is empty.
func engine(deployment string, id rollout.EngineID) func(*core.Pod) bool {
	return func(pod *core.Pod) bool {
		return pod.Annotations["millrace.dev/deployment-name"] == deployment &&
			(id == "" || pod.Annotations["millrace.dev/engine-id"] == string(id))
	}
}
