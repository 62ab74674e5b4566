package kubernetes

import (
	"os"
	"strings"
	"testing"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestPage: docs/kubernetes.md names every key, every notice and all that Millrace sets in a pod.
func TestPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	named := []string{labelManagedBy, labelComponent, labelDeployment, labelEngine, annotationStopped, EngineIDVariable}
	for _, key := range Keys.Keys {
		if !strings.Contains(key.Path, ".") {
			named = append(named, "`"+key.Path+"`")
		}
	}
	for taint := range usualNotices {
		named = append(named, "`"+taint+"`")
	}
	for kind := range usualConditions {
		named = append(named, "`"+kind+"`")
	}
	for _, name := range named {
		if !strings.Contains(string(text), name) {
			t.Errorf("%s is not on the page", name)
		}
	}
}

// TestTemplateOfThePage is what people begin with.
func TestTemplateOfThePage(t *testing.T) {
	t.Parallel()
	const path = "../../../../deploy/kubernetes/engine-pod.yaml"
	if _, err := readTemplate(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var template core.Pod
	if err := yaml.UnmarshalStrict(text, &template); err != nil {
		t.Fatal(err)
	}
	hook := template.Spec.Containers[0].Lifecycle.PreStop.Sleep.Seconds
	if grace := *template.Spec.TerminationGracePeriodSeconds; hook >= grace {
		t.Errorf("its preStop hook takes %d s of a grace of %d s", hook, grace)
	}
}

// TestAdaptersAndTrainerOfThePage: the trainer writes where the engines of the template read.
func TestAdaptersAndTrainerOfThePage(t *testing.T) {
	t.Parallel()
	read := func(name string) []string {
		text, err := os.ReadFile("../../../../deploy/kubernetes/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(string(text), "\n---\n")
	}
	var engine core.Pod
	var claims [2]core.PersistentVolumeClaim
	var trainer batch.Job
	texts := append(read("engine-pod.yaml"), read("adapters-and-trainer.yaml")...)
	for i, into := range []any{&engine, &claims[0], &claims[1], &trainer} {
		if err := yaml.UnmarshalStrict([]byte(texts[i]), into); err != nil {
			t.Fatal(err)
		}
	}
	reads, writes := mounted(engine.Spec, "adapters"), mounted(trainer.Spec.Template.Spec, "adapters")
	if claims[0].Name != "adapters" || claims[0].Spec.AccessModes[0] != core.ReadWriteMany || reads.Path == "" ||
		reads.Path != writes.Path || !reads.ReadOnly || writes.ReadOnly {
		t.Errorf("claim %s %v is at %+v of engines, and at %+v of the trainer", claims[0].Name, claims[0].Spec.AccessModes,
			reads, writes)
	}
}

// mount is where a claim is in a container.
type mount struct {
	Path     string
	ReadOnly bool
}

func mounted(pod core.PodSpec, claim string) (m mount) {
	for _, v := range pod.Volumes {
		for _, at := range pod.Containers[0].VolumeMounts {
			if c := v.PersistentVolumeClaim; c != nil && c.ClaimName == claim && at.Name == v.Name {
				m = mount{at.MountPath, at.ReadOnly || c.ReadOnly}
			}
		}
	}
	return m
}
