package kubernetes_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/scaling/provider/kubernetes"
)

const helmDir = "../../../../deploy/helm"

// longestStatefulSet leaves room, in a label of 63, for a hyphen and the ten letters that tell a revision.
const longestStatefulSet = 52

// kinds are those of Kubernetes that the chart makes. make test-deploy holds those of others to their definitions.
var kinds = map[string]func() meta.Object{
	"ClusterRole":         func() meta.Object { return &rbac.ClusterRole{} },
	"ClusterRoleBinding":  func() meta.Object { return &rbac.ClusterRoleBinding{} },
	"ConfigMap":           func() meta.Object { return &core.ConfigMap{} },
	"Deployment":          func() meta.Object { return &apps.Deployment{} },
	"Ingress":             func() meta.Object { return &networking.Ingress{} },
	"NetworkPolicy":       func() meta.Object { return &networking.NetworkPolicy{} },
	"Pod":                 func() meta.Object { return &core.Pod{} },
	"PodDisruptionBudget": func() meta.Object { return &policy.PodDisruptionBudget{} },
	"Role":                func() meta.Object { return &rbac.Role{} },
	"RoleBinding":         func() meta.Object { return &rbac.RoleBinding{} },
	"Service":             func() meta.Object { return &core.Service{} },
	"ServiceAccount":      func() meta.Object { return &core.ServiceAccount{} },
	"StatefulSet":         func() meta.Object { return &apps.StatefulSet{} },
}

// TestRenderedChart: what helm has made of the chart as it is has no field that Kubernetes does not know, pods that a
// namespace of level "restricted" takes, and a configuration and an engine's pod that Millrace takes. It needs no helm:
// make test-deploy has that, and holds the renderings to it.
func TestRenderedChart(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(helmDir, "rendered", "*.yaml"))
	if err != nil || len(files) < 4 {
		t.Fatalf("renderings: %v, %v", files, err)
	}
	checkSources(t)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for doc := range strings.SplitSeq("\n"+string(text), "\n---") {
			checkRendered(t, filepath.Base(file), doc)
		}
	}
}

// checkSources: every file that the renderings are made of is as it was then. Links are left out: what they lead to,
// the alerts and the dashboard, is not in the renderings.
func checkSources(t *testing.T) {
	t.Helper()
	sums, err := os.ReadFile(filepath.Join(helmDir, "rendered", "sources.sha256"))
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]bool{}
	for line := range strings.Lines(string(sums)) {
		left[strings.TrimSpace(line)] = true
	}
	const root = "../../../.."
	for _, dir := range []string{"deploy/helm/millrace", "deploy/tools/deploy/testdata/values"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(root, path)
			line := fmt.Sprintf("%x  %s", sha256.Sum256(text), filepath.ToSlash(name))
			if !left[line] {
				t.Errorf("%s has changed since the chart was rendered: make chart-rendered", name)
			}
			delete(left, line)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for line := range left {
		t.Errorf("there is no %s, of which the chart was rendered: make chart-rendered", line)
	}
}

func checkRendered(t *testing.T, file, doc string) {
	t.Helper()
	var kind meta.TypeMeta
	if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	make, known := kinds[kind.Kind]
	if !known {
		if kind.Kind != "" && !strings.Contains(kind.APIVersion, ".") {
			t.Errorf("%s: nothing here knows the kind %s", file, kind.Kind)
		}
		return
	}
	it := make()
	if err := yaml.UnmarshalStrict([]byte(doc), it); err != nil {
		t.Errorf("%s: %s: %v", file, kind.Kind, err)
		return
	}
	at := fmt.Sprintf("%s: %s %s", file, kind.Kind, it.GetName())
	if faults := validation.IsDNS1123Label(it.GetName()); faults != nil {
		t.Errorf("%s: its name: %v", at, faults)
	}
	switch it := it.(type) {
	case *core.ConfigMap:
		checkConfigMap(t, at, it)
	case *core.Service:
		if faults := validation.IsDNS1035Label(it.Name); faults != nil {
			t.Errorf("%s: its name: %v", at, faults)
		}
	case *apps.Deployment:
		if !strings.HasSuffix(it.Name, "-engines") { // vLLM's image runs as root
			checkRestricted(t, at, it.Spec.Template.Spec)
		}
	case *apps.StatefulSet:
		if len(it.Name) > longestStatefulSet {
			t.Errorf("%s: its pods could not be made", at)
		}
		checkRestricted(t, at, it.Spec.Template.Spec)
	case *core.Pod:
		checkRestricted(t, at, it.Spec)
	}
}

// checkConfigMap has Millrace read what it will read in the cluster.
func checkConfigMap(t *testing.T, at string, it *core.ConfigMap) {
	t.Helper()
	service, err := config.ReadService(at, []byte(it.Data["service.yaml"]), func(name string) string {
		if name == "MILLRACE_REDIS_URL" {
			return "redis://redis:6379/0" // of a secret
		}
		return ""
	})
	if err != nil {
		t.Errorf("%s: service.yaml: %v", at, err)
		return
	}
	pod, ok := it.Data["engine-pod.yaml"]
	if !ok {
		return
	}
	cfg := *service.Scaling.Kubernetes
	cfg.Template, cfg.Kubeconfig = write(t, "engine-pod.yaml", pod), newCluster(t, 0).kubeconfig
	if err := yaml.UnmarshalStrict([]byte(pod), &core.Pod{}); err != nil {
		t.Errorf("%s: engine-pod.yaml: %v", at, err)
	}
	if _, err := kubernetes.New(cfg, "ours", nil); err != nil {
		t.Errorf("%s: engine-pod.yaml: %v", at, err)
	}
}

// checkRestricted holds a pod to the standard "restricted" for pods, and to what the image can do without.
func checkRestricted(t *testing.T, at string, spec core.PodSpec) {
	t.Helper()
	s := spec.SecurityContext
	if s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.RunAsUser == nil || *s.RunAsUser == 0 ||
		s.SeccompProfile == nil || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s: its pods would be refused: %+v", at, s)
	}
	for _, v := range spec.Volumes {
		if v.HostPath != nil {
			t.Errorf("%s: volume %s is of its node", at, v.Name)
		}
	}
	if spec.EnableServiceLinks == nil || *spec.EnableServiceLinks {
		t.Errorf("%s: Services of the namespace set variables of its containers", at)
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		s := c.SecurityContext
		if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.Capabilities == nil ||
			!slices.Contains(s.Capabilities.Drop, "ALL") || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
			t.Errorf("%s: container %s would be refused, or may write to its root: %+v", at, c.Name, s)
		}
	}
}
