package kubernetes

import (
	"os"
	"strings"
	"testing"

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
