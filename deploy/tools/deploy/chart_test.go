package deploy

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const chartDir = root + "/deploy/helm/millrace"

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // helm says of every link that it follows it
	os.Exit(m.Run())
}

func loadChart(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render is what helm makes of the chart with values, for a version of Kubernetes.
func render(t *testing.T, version string, values map[string]any) (string, error) {
	t.Helper()
	kube, err := chartutil.ParseKubeVersion(version)
	if err != nil {
		t.Fatal(err)
	}
	install := action.NewInstall(&action.Configuration{Log: func(string, ...any) {}})
	install.DryRun, install.ClientOnly, install.KubeVersion = true, true, kube
	install.ReleaseName, install.Namespace = "m", "rl"
	release, err := install.Run(loadChart(t), values)
	if err != nil {
		return "", err
	}
	text := release.Manifest
	for _, hook := range release.Hooks {
		text += "\n---\n" + hook.Manifest
	}
	return text, nil
}

func readValues(t *testing.T, file string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(data, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// objects are the documents of a manifest, each of a kind that Kubernetes or a CRD below knows, without a field that it
// does not know.
func objects(t *testing.T, manifest string) []runtime.Object {
	t.Helper()
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var all []runtime.Object
	for _, doc := range strings.Split("\n"+manifest, "\n---") {
		data, err := yaml.YAMLToJSON([]byte(doc))
		if err != nil {
			t.Fatalf("%v in:\n%s", err, doc)
		}
		var found unstructured.Unstructured
		if string(data) == "null" {
			continue
		}
		if err := json.Unmarshal(data, &found.Object); err != nil {
			t.Fatalf("%v in:\n%s", err, doc)
		}
		if !scheme.Scheme.Recognizes(found.GroupVersionKind()) {
			checkCustom(t, &found)
			all = append(all, &found)
			continue
		}
		o, _, err := strict.Decode(data, nil, nil)
		if err != nil {
			t.Errorf("%s %s: %v", found.GetKind(), found.GetName(), err)
			continue
		}
		all = append(all, o)
	}
	return all
}

// definitions is where the kinds are defined that others bring to Kubernetes: in their modules, of these versions.
var definitions = map[string]string{
	"ScaledObject":   "github.com/kedacore/keda/v2@v2.21.0/config/crd/bases/keda.sh_scaledobjects.yaml",
	"ServiceMonitor": prometheusOperator + "servicemonitors.yaml",
	"PrometheusRule": prometheusOperator + "prometheusrules.yaml",
}

const prometheusOperator = "github.com/prometheus-operator/prometheus-operator@v0.85.0/" +
	"example/prometheus-operator-crd/monitoring.coreos.com_"

// definition is the CRD of a kind, read from the module of its project.
func definition(t *testing.T, kind string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	place, ok := definitions[kind]
	if !ok {
		t.Fatalf("the chart has a %s, which nothing here defines", kind)
	}
	module, file, _ := strings.Cut(place, "@")
	version, file, _ := strings.Cut(file, "/")
	out, err := exec.Command("go", "mod", "download", "-json", module+"@"+version).Output()
	if err != nil {
		t.Fatalf("go mod download %s@%s: %v", module, version, err)
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(downloaded.Dir, file))
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	return &crd
}

// checkCustom holds an object to its CRD, unknown fields included.
func checkCustom(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	crd := definition(t, o.GetKind())
	at := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return crd.Spec.Group+"/"+v.Name == o.GetAPIVersion()
	})
	if at < 0 {
		t.Errorf("%s: its definition has no %s", o.GetKind(), o.GetAPIVersion())
		return
	}
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		crd.Spec.Versions[at].Schema.OpenAPIV3Schema, &props, nil); err != nil {
		t.Fatal(err)
	}
	validator, _, err := validation.NewSchemaValidator(&props)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range validation.ValidateCustomResource(nil, o.Object, validator) {
		t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
	structural, err := schema.NewStructural(&props)
	if err != nil {
		t.Fatal(err)
	}
	if unknown := pruning.PruneWithOptions(o.DeepCopy().Object, structural, true, schema.UnknownFieldPathOptions{
		TrackUnknownFieldPaths: true}); len(unknown) > 0 {
		t.Errorf("%s %s: unknown fields %v", o.GetKind(), o.GetName(), unknown)
	}
}

func valueFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/values/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no values", err)
	}
	return files
}

// TestChart: what is rendered is valid, hangs together, and has a configuration that Millrace takes.
func TestChart(t *testing.T) {
	t.Parallel()
	for _, file := range valueFiles(t) {
		for _, version := range []string{"1.29.0", "1.34.0"} {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml")+" "+version, func(t *testing.T) {
				t.Parallel()
				values := readValues(t, file)
				manifest, err := render(t, version, values)
				if err != nil {
					t.Fatal(err)
				}
				all := objects(t, manifest)
				checkTogether(t, all, values)
				for _, o := range all {
					if c, ok := o.(*corev1.ConfigMap); ok && c.Data["service.yaml"] != "" {
						millrace(t, c.Data["service.yaml"], "config", "check", "--service", "-")
					}
				}
			})
		}
	}
}

func TestChartLints(t *testing.T) {
	t.Parallel()
	for _, file := range valueFiles(t) {
		kube := &chartutil.KubeVersion{Version: "v1.34.0", Major: "1", Minor: "34"}
		linted := lint.AllWithKubeVersion(chartDir, readValues(t, file), "rl", kube)
		for _, m := range linted.Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s: %v", file, m)
			}
		}
	}
}

// podsOf is the pod template of an object that makes pods.
func podsOf(o runtime.Object) *corev1.PodTemplateSpec {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return &o.Spec.Template
	case *appsv1.StatefulSet:
		return &o.Spec.Template
	case *corev1.Pod:
		return &corev1.PodTemplateSpec{ObjectMeta: o.ObjectMeta, Spec: o.Spec}
	}
	return nil
}

// checkTogether: selectors find pods, mounts have volumes, and what pods refer to is in the chart or named in values.
func checkTogether(t *testing.T, all []runtime.Object, values map[string]any) {
	t.Helper()
	given := fmt.Sprint(values)
	var pods []*corev1.PodTemplateSpec
	names := map[string]bool{}
	for _, o := range all {
		meta := o.(metav1.Object)
		id := fmt.Sprintf("%T %s", o, meta.GetName())
		if u, ok := o.(*unstructured.Unstructured); ok {
			id = u.GetKind() + " " + u.GetName()
		}
		if names[id] {
			t.Errorf("%s is there twice", id)
		}
		names[id] = true
		if len(meta.GetName()) > 63 || meta.GetLabels()["app.kubernetes.io/instance"] == "" {
			t.Errorf("%s: a name that is too long, or no labels", id)
		}
		if p := podsOf(o); p != nil {
			pods = append(pods, p)
			checkPod(t, id, p, names, given)
		}
	}
	for _, o := range all {
		var selector map[string]string
		switch o := o.(type) {
		case *corev1.Service:
			selector = o.Spec.Selector
		case *policyv1.PodDisruptionBudget:
			selector = o.Spec.Selector.MatchLabels
		case *appsv1.Deployment:
			selector = o.Spec.Selector.MatchLabels
		case *appsv1.StatefulSet:
			selector = o.Spec.Selector.MatchLabels
		default:
			continue
		}
		found := map[string]bool{}
		for _, p := range pods {
			if labels.SelectorFromSet(selector).Matches(labels.Set(p.Labels)) {
				found[p.Spec.Containers[0].Name] = true
			}
		}
		if len(found) != 1 {
			t.Errorf("%T %s selects the pods of %v, want those of one kind", o, o.(metav1.Object).GetName(), found)
		}
	}
}

func checkPod(t *testing.T, id string, p *corev1.PodTemplateSpec, names map[string]bool, given string) {
	t.Helper()
	claimed := strings.Contains(given, "persistent:true")
	volumes := map[string]bool{"spool": claimed}
	for _, v := range p.Spec.Volumes {
		volumes[v.Name] = true
		if v.Secret != nil && !strings.Contains(given, v.Secret.SecretName) {
			t.Errorf("%s: nobody has named the secret %s", id, v.Secret.SecretName)
		}
		if v.ConfigMap != nil && !names["*v1.ConfigMap "+v.ConfigMap.Name] {
			t.Errorf("%s: there is no ConfigMap %s", id, v.ConfigMap.Name)
		}
	}
	engine := p.Spec.Containers[0].Name == "engine"
	for _, c := range append(slices.Clone(p.Spec.InitContainers), p.Spec.Containers...) {
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("%s: %s mounts %s, which is no volume", id, c.Name, m.Name)
			}
		}
		if s := c.SecurityContext; !engine && (s == nil || !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation) {
			t.Errorf("%s: %s may do more than it needs", id, c.Name)
		}
	}
	if s := p.Spec.SecurityContext; !engine && (s == nil || !*s.RunAsNonRoot || *s.RunAsUser == 0) {
		t.Errorf("%s runs as root", id)
	}
}

// TestWhoHasWhichSecrets: a worker has neither tokens nor the API's key, and no token of Kubernetes unless it makes
// pods.
func TestWhoHasWhichSecrets(t *testing.T) {
	t.Parallel()
	for file, makesPods := range map[string]bool{"advise-with-all": false, "kubernetes": true} {
		manifest, err := render(t, "1.34.0", readValues(t, "testdata/values/"+file+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects(t, manifest) {
			p := podsOf(o)
			if p == nil {
				continue
			}
			worker := p.Spec.Containers[0].Name == "worker"
			if token := p.Spec.AutomountServiceAccountToken; token == nil || *token != (worker && makesPods) {
				t.Errorf("%s, %s: a token of Kubernetes: %v", file, p.Spec.Containers[0].Name, token)
			}
			for _, v := range p.Spec.Volumes {
				if worker && v.Secret != nil && (v.Name == "tokens" || v.Name == "tls") {
					t.Errorf("%s: the worker has %s", file, v.Name)
				}
			}
		}
	}
}

// TestWhatReplacesPods: a change that running processes take up does not, and any other one does.
func TestWhatReplacesPods(t *testing.T) {
	t.Parallel()
	checksums := func(change func(config map[string]any)) string {
		values := readValues(t, "testdata/values/least.yaml")
		change(values["config"].(map[string]any))
		manifest, err := render(t, "1.34.0", values)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, o := range objects(t, manifest) {
			if p := podsOf(o); p != nil {
				text += p.Annotations["checksum/restart"] + " "
			}
		}
		return text
	}
	before := checksums(func(map[string]any) {})
	proxies := map[string]any{"trusted_proxies": []any{"10.0.0.0/8"}}
	for name, tt := range map[string]struct {
		change   func(config map[string]any)
		replaces bool
	}{
		"limits":          {func(c map[string]any) { c["limits"] = map[string]any{"runs": 3} }, false},
		"log_level":       {func(c map[string]any) { c["log_level"] = "debug" }, false},
		"engines":         {func(c map[string]any) { c["engines"] = []any{map[string]any{"url": "http://a:1"}} }, false},
		"trusted_proxies": {func(c map[string]any) { c["auth"] = proxies }, false},
		"spool":           {func(c map[string]any) { c["spool"] = map[string]any{"max_bytes": 1} }, true},
		"worker.games":    {func(c map[string]any) { c["worker"] = map[string]any{"games": 7} }, true},
	} {
		if got := checksums(tt.change) != before; got != tt.replaces {
			t.Errorf("%s replaces pods: %v, want %v", name, got, tt.replaces)
		}
	}
}

// TestValuesThatCannotBe: helm says what is missing or wrong, and where.
func TestValuesThatCannotBe(t *testing.T) {
	t.Parallel()
	type section = map[string]any
	for name, tt := range map[string]struct {
		set  section
		want string
	}{
		"no tokens":      {section{"secrets": section{"tokens": section{"name": ""}}}, "secrets.tokens.name"},
		"no temporal":    {section{"config": section{"redis": section{"url": "redis://r:1"}}}, "config.temporal.address"},
		"no redis":       {section{"config": section{"temporal": section{"address": "t:1"}}}, "config.redis.url"},
		"a typing error": {section{"server": section{"replica": 3}}, "replica"},
		"no engine pod": {section{"config": section{"redis": section{"url": "redis://r:1"},
			"temporal": section{"address": "t:1"}, "scaling": section{"provider": "kubernetes"}}}, "enginePod"},
		"keda without prometheus": {section{"keda": section{"enabled": true}}, "keda.prometheus"},
	} {
		values := readValues(t, "testdata/values/least.yaml")
		for k, v := range tt.set {
			values[k] = v
		}
		if _, err := render(t, "1.34.0", values); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want it to name %s", name, err, tt.want)
		}
	}
}
