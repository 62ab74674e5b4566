package kubernetes

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/internal/rollout"
)

// annotationDefaultContainer is how kubectl knows which of several containers is meant.
const annotationDefaultContainer = "kubectl.kubernetes.io/default-container"

// readTemplate reads the operator's manifest, strictly: a key that Kubernetes does not know is a fault.
func readTemplate(path string) (*core.Pod, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("pod template: %w", err)
	}
	pod, err := parseTemplate(text)
	if err != nil {
		return nil, fmt.Errorf("pod template %s: %w", path, err)
	}
	return pod, nil
}

func parseTemplate(text []byte) (*core.Pod, error) {
	var pod core.Pod
	if err := yaml.UnmarshalStrict(text, &pod); err != nil {
		return nil, fmt.Errorf("%w (want a manifest of kind Pod)", err)
	}
	return &pod, errors.Join(templateFaults(&pod)...)
}

// templateFaults are what is Millrace's to say, and what no pod can be without. The rest is checked by the API server,
// which knows its version and its policies.
func templateFaults(pod *core.Pod) []error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
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
	check(pod.Spec.RestartPolicy == "" || pod.Spec.RestartPolicy == core.RestartPolicyNever,
		"spec.restartPolicy: %s: Millrace sets Never, and buys another engine in the place of one that ended",
		pod.Spec.RestartPolicy)
	check(len(pod.Spec.Containers) > 0, "spec.containers: at least the engine's")
	if name := pod.Annotations[annotationDefaultContainer]; name != "" {
		check(slices.ContainsFunc(pod.Spec.Containers, func(c core.Container) bool { return c.Name == name }),
			"metadata.annotations: %s: no container is named %s", annotationDefaultContainer, name)
	}
	for _, of := range []struct {
		key  string
		list []core.Container
	}{{"initContainers", pod.Spec.InitContainers}, {"containers", pod.Spec.Containers}} {
		for i, c := range of.list {
			check(!slices.ContainsFunc(c.Env, func(v core.EnvVar) bool { return v.Name == EngineIDVariable }),
				"spec.%s[%d].env: %s is set by Millrace", of.key, i, EngineIDVariable)
		}
	}
	return faults
}

// podFor is the pod of one engine: the template with what makes it this engine of this deployment.
func podFor(template *core.Pod, deployment string, id rollout.EngineID) *core.Pod {
	pod := template.DeepCopy()
	pod.Name = podName(deployment, id)
	pod.Labels = with(pod.Labels, map[string]string{
		labelManagedBy: "millrace", labelComponent: "engine",
		labelDeployment: labelValue(deployment), labelEngine: labelValue(string(id)),
	})
	pod.Annotations = with(pod.Annotations, map[string]string{
		annotationDeployment: deployment, annotationEngine: string(id), annotationDefaultContainer: engineContainer(template),
	})
	pod.Spec.RestartPolicy = core.RestartPolicyNever
	for _, list := range [][]core.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list { // the id comes first: variables may refer to those before them
			list[i].Env = append([]core.EnvVar{{Name: EngineIDVariable, Value: string(id)}}, list[i].Env...)
		}
	}
	return pod
}

// engineContainer is the container that is the engine: the one that kubectl takes by default.
func engineContainer(pod *core.Pod) string {
	if name := pod.Annotations[annotationDefaultContainer]; name != "" {
		return name
	}
	if len(pod.Spec.Containers) == 0 {
		return ""
	}
	return pod.Spec.Containers[0].Name
}

func with(all, ours map[string]string) map[string]string {
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, ours)
	return all
}
