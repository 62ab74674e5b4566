package kubernetes

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/rollout"
)

// annotationDefaultContainer is how kubectl knows which of several containers is meant.
const annotationDefaultContainer = "kubectl.kubernetes.io/default-container"

// template is the operator's manifest.
type template struct {
	podObject
	manifest []byte // the whole of it, as JSON
}

func readTemplate(path string) (*template, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("pod template: %w", err)
	}
	read, err := parseTemplate(text)
	if err != nil {
		return nil, fmt.Errorf("pod template %s: %w", path, err)
	}
	return read, nil
}

func parseTemplate(text []byte) (*template, error) {
	var t template
	var err error
	if t.manifest, err = toJSON(text); err == nil {
		err = json.Unmarshal(t.manifest, &t.podObject)
	}
	if err != nil {
		return nil, fmt.Errorf("%w (want a manifest of kind Pod)", err)
	}
	return &t, templateFaults(&t.podObject)
}

// templateFaults checks the fields that Millrace sets itself and those that no pod can lack. The API server, which
// knows its version and policies, checks the rest, including unknown keys.
func templateFaults(pod *podObject) error {
	var faults settings.Checks
	check := faults.Require
	check(pod.Kind == "" || pod.Kind == "Pod", "kind: %s: want Pod", pod.Kind)
	check(pod.APIVersion == "" || pod.APIVersion == "v1", "apiVersion: %s: want v1", pod.APIVersion)
	check(pod.Name == "" && pod.GenerateName == "", "metadata.name: Millrace names the pods; leave it out")
	check(pod.Namespace == "", "metadata.namespace: set kubernetes.namespace of the service's configuration instead")
	for _, key := range slices.Sorted(maps.Keys(pod.Labels)) {
		check(!strings.HasPrefix(key, ownDomain), "metadata.labels: %s is set by Millrace", key)
	}
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		check(!strings.HasPrefix(key, ownDomain), "metadata.annotations: %s is set by Millrace", key)
	}
	check(pod.Spec.RestartPolicy == "" || pod.Spec.RestartPolicy == "Never",
		"spec.restartPolicy: %s: Millrace sets Never, and buys another engine in the place of one that ended",
		pod.Spec.RestartPolicy)
	check(len(pod.Spec.Containers) > 0, "spec.containers: at least the engine's")
	if name := pod.Annotations[annotationDefaultContainer]; name != "" {
		check(slices.ContainsFunc(pod.Spec.Containers, func(c container) bool { return c.Name == name }),
			"metadata.annotations: %s: no container is named %s", annotationDefaultContainer, name)
	}
	for _, of := range []struct {
		key  string
		list []container
	}{{"initContainers", pod.Spec.InitContainers}, {"containers", pod.Spec.Containers}} {
		for i, c := range of.list {
			check(!slices.ContainsFunc(c.Env, func(v variable) bool { return v.Name == EngineIDVariable }),
				"spec.%s[%d].env: %s is set by Millrace", of.key, i, EngineIDVariable)
		}
	}
	return faults.Err()
}

// podFor is the pod of one engine: the template with what makes it this engine of this deployment.
func (t *template) podFor(deployment string, id rollout.EngineID) map[string]any {
	var pod map[string]any
	_ = json.Unmarshal(t.manifest, &pod) // it was read before
	pod["apiVersion"], pod["kind"] = "v1", "Pod"
	metadata, spec := section(pod, "metadata"), section(pod, "spec")
	metadata["name"] = podName(deployment, id)
	maps.Copy(section(metadata, "labels"), map[string]any{
		labelManagedBy: "millrace", labelComponent: "engine",
		labelDeployment: labelValue(deployment), labelEngine: labelValue(string(id)),
	})
	maps.Copy(section(metadata, "annotations"), map[string]any{
		annotationDeployment: deployment, annotationEngine: string(id),
		annotationDefaultContainer: engineContainer(&t.podObject),
	})
	spec["restartPolicy"] = "Never"
	for _, list := range []string{"initContainers", "containers"} {
		containers, _ := spec[list].([]any)
		for _, it := range containers { // the id comes first: variables may refer to those before them
			if c, ok := it.(map[string]any); ok {
				env, _ := c["env"].([]any)
				c["env"] = append([]any{map[string]any{"name": EngineIDVariable, "value": id}}, env...)
			}
		}
	}
	return pod
}

// section returns a map inside a manifest, and creates it if need be.
func section(of map[string]any, key string) map[string]any {
	part, _ := of[key].(map[string]any)
	if part == nil {
		part = map[string]any{}
		of[key] = part
	}
	return part
}

// engineContainer is the container that is the engine: the one that kubectl takes by default.
func engineContainer(pod *podObject) string {
	if name := pod.Annotations[annotationDefaultContainer]; name != "" {
		return name
	}
	if len(pod.Spec.Containers) == 0 {
		return ""
	}
	return pod.Spec.Containers[0].Name
}
