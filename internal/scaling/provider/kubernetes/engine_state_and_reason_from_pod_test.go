package kubernetes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// TestPodStates has a pod's status as kubectl shows it, and what is told of the engine.
func TestPodStates(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		pod    string // spec, status and deletionTimestamp
		state  enginestate.EngineState
		url    string
		leaves string
		reason string // a part of it; empty: there is none
	}{
		{"just created", `{status: {phase: Pending}}`, enginestate.EngineOrdered, "", "", "scheduler has not looked"},
		{"no node has a GPU free", `{status: {phase: Pending, conditions: [{type: PodScheduled, status: "False",
			reason: Unschedulable, message: "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."}]}}`,
			enginestate.EngineOrdered, "", "", "Unschedulable: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu."},
		{"a scheduling gate", `{status: {phase: Pending, conditions: [{type: PodScheduled, status: "False",
			reason: SchedulingGated, message: queued}]}}`, enginestate.EngineOrdered, "", "", "SchedulingGated: queued"},
		{"the image is pulled", `{spec: {nodeName: n1}, status: {phase: Pending, containerStatuses: [
			{name: vllm, state: {waiting: {reason: ContainerCreating}}}]}}`,
			enginestate.EngineOrdered, "", "", "container vllm: ContainerCreating"},
		{"the image cannot be pulled", `{spec: {nodeName: n1}, status: {phase: Pending, containerStatuses: [
			{name: vllm, state: {waiting: {reason: ImagePullBackOff, message: Back-off pulling image}}}]}}`,
			enginestate.EngineOrdered, "", "", "container vllm: ImagePullBackOff: Back-off pulling image"},
		{"an init container fetches the model", `{spec: {nodeName: n1}, status: {phase: Pending,
			initContainerStatuses: [{name: fetch, state: {running: {}}}],
			containerStatuses: [{name: vllm, state: {waiting: {reason: PodInitializing}}}]}}`,
			enginestate.EngineOrdered, "", "", "on node n1"},
		{"an init container failed", `{spec: {nodeName: n1}, status: {phase: Failed,
			initContainerStatuses: [{name: fetch, state: {terminated: {exitCode: 1, reason: Error, message: 403}}}],
			containerStatuses: [{name: vllm, state: {waiting: {reason: PodInitializing}}}]}}`,
			enginestate.EngineFailed, "", "", "container fetch: ended with exit code 1: 403"},
		{"runs", `{spec: {nodeName: n1}, status: {phase: Running, podIP: 10.1.2.3, containerStatuses: [
			{name: vllm, state: {running: {}}}]}}`, enginestate.EngineRunning, "http://10.1.2.3:8000", "", ""},
		{"runs at an IPv6 address", `{spec: {nodeName: n1}, status: {phase: Running, podIP: "fd00::7",
			containerStatuses: [{name: vllm, state: {running: {}}}]}}`, enginestate.EngineRunning, "http://[fd00::7]:8000", "", ""},
		{"its sidecar runs, it does not yet", `{spec: {nodeName: n1}, status: {phase: Running, podIP: 10.1.2.3,
			containerStatuses: [{name: proxy, state: {running: {}}},
			{name: vllm, state: {waiting: {reason: ContainerCreating}}}]}}`,
			enginestate.EngineOrdered, "http://10.1.2.3:8000", "", "container vllm: ContainerCreating"},
		{"its sidecar runs, it has ended", `{spec: {nodeName: n1}, status: {phase: Running, podIP: 10.1.2.3,
			containerStatuses: [{name: proxy, state: {running: {}}},
			{name: vllm, state: {terminated: {exitCode: 1, reason: Error, message: CUDA out of memory}}}]}}`,
			enginestate.EngineFailed, "", "", "container vllm: ended with exit code 1: CUDA out of memory"},
		{"out of memory", `{spec: {nodeName: n1}, status: {phase: Failed, podIP: 10.1.2.3, containerStatuses: [
			{name: vllm, state: {terminated: {exitCode: 137, reason: OOMKilled}}}]}}`,
			enginestate.EngineFailed, "", "", "container vllm: OOMKilled (exit code 137)"},
		{"ended without an error", `{spec: {nodeName: n1}, status: {phase: Succeeded, containerStatuses: [
			{name: vllm, state: {terminated: {exitCode: 0, reason: Completed}}}]}}`,
			enginestate.EngineFailed, "", "", "container vllm: ended with exit code 0"},
		{"evicted by its node", `{spec: {nodeName: n1}, status: {phase: Failed, reason: Evicted,
			message: "The node was low on resource: memory."}}`,
			enginestate.EngineFailed, "", "", "Evicted: The node was low on resource: memory."},
		{"its node was shut down", `{spec: {nodeName: n1}, status: {phase: Failed, reason: Terminated,
			message: Pod was terminated in response to imminent node shutdown., conditions: [
			{type: DisruptionTarget, status: "True", reason: TerminationByKubelet}]}}`,
			enginestate.EngineFailed, "", "",
			"Terminated: Pod was terminated in response to imminent node shutdown.; TerminationByKubelet"},
		{"failed without a word", `{status: {phase: Failed}}`, enginestate.EngineFailed, "", "", "does not say why"},
		{"deleted by somebody", `{metadata: {deletionTimestamp: "2026-11-23T10:00:30Z"}, spec: {nodeName: n1},
			status: {phase: Running, podIP: 10.1.2.3, containerStatuses: [{name: vllm, state: {running: {}}}]}}`,
			enginestate.EngineStopping, "http://10.1.2.3:8000", "2026-11-23T10:00:30Z", "being deleted, not by Millrace"},
		{"evicted through the API", `{metadata: {deletionTimestamp: "2026-11-23T10:00:30Z"}, spec: {nodeName: n1},
			status: {phase: Running, podIP: 10.1.2.3, containerStatuses: [{name: vllm, state: {running: {}}}], conditions: [
			{type: DisruptionTarget, status: "True", reason: EvictionByEvictionAPI, message: "Eviction API: evicting"}]}}`,
			enginestate.EngineStopping, "http://10.1.2.3:8000", "2026-11-23T10:00:30Z",
			"EvictionByEvictionAPI: Eviction API: evicting"},
		{"announced, not deleted yet", `{spec: {nodeName: n1, terminationGracePeriodSeconds: 60},
			status: {phase: Running, podIP: 10.1.2.3, containerStatuses: [{name: vllm, state: {running: {}}}], conditions: [
			{type: DisruptionTarget, status: "True", reason: PreemptionByScheduler,
			lastTransitionTime: "2026-11-23T10:00:00Z"}]}}`,
			enginestate.EngineRunning, "http://10.1.2.3:8000", "2026-11-23T10:01:00Z", "PreemptionByScheduler"},
		{"an announcement that was taken back", `{spec: {nodeName: n1}, status: {phase: Running, podIP: 10.1.2.3,
			containerStatuses: [{name: vllm, state: {running: {}}}], conditions: [
			{type: DisruptionTarget, status: "False", reason: EvictionByEvictionAPI}]}}`,
			enginestate.EngineRunning, "http://10.1.2.3:8000", "", ""},
		{"ended while it was deleted", `{metadata: {deletionTimestamp: "2026-11-23T10:00:30Z"}, spec: {nodeName: n1},
			status: {phase: Failed, containerStatuses: [{name: vllm, state: {terminated: {exitCode: 143, reason: Error}}}]}}`,
			enginestate.EngineFailed, "", "2026-11-23T10:00:30Z", "ended with exit code 143"},
		{"its node does not report", `{spec: {nodeName: n1}, status: {phase: Unknown, podIP: 10.1.2.3, reason: NodeLost}}`,
			enginestate.EngineRunning, "http://10.1.2.3:8000", "", "the node does not report: NodeLost"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var pod podObject
			if err := yaml.Unmarshal([]byte(strings.ReplaceAll(tt.pod, "\t", " ")), &pod); err != nil {
				t.Fatal(err)
			}
			pod.Annotations = map[string]string{annotationEngine: "scaled-1", annotationDefaultContainer: "vllm"}
			e := instance(&pod, Unset())
			if e.ID != "scaled-1" || e.State != tt.state || e.URL != tt.url {
				t.Errorf("%s is %s at %q, want %s at %q", e.ID, e.State, e.URL, tt.state, tt.url)
			}
			if leaves := when(e.LeavesAt); leaves != tt.leaves {
				t.Errorf("leaves at %q, want %q", leaves, tt.leaves)
			}
			if !strings.Contains(e.Reason, tt.reason) || tt.reason == "" && e.Reason != "" {
				t.Errorf("reason %q, want %q", e.Reason, tt.reason)
			}
		})
	}
}

func when(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

// TestReasonsAreBounded: of a container's last words the end is kept, and no character is cut in two.
func TestReasonsAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 2000) + "RuntimeError: CUDA"
	got := shorten(long)
	if len(got) > longestReason || !strings.HasSuffix(got, "RuntimeError: CUDA") || !strings.HasPrefix(got, "é") ||
		strings.ContainsRune(got, '\uFFFD') {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

// TestTemplates: what an operator may write, and what is said of the rest.
func TestTemplates(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, fault string }{
		{"the least", "{spec: {containers: [{name: vllm, image: vllm}]}}", ""},
		{"everything that is one's own", `{apiVersion: v1, kind: Pod, metadata: {labels: {team: rl}, annotations: {a: b}},
			spec: {restartPolicy: Never, nodeSelector: {gpu: h100}, tolerations: [{operator: Exists}],
			containers: [{name: vllm, image: vllm, resources: {limits: {nvidia.com/gpu: 1}}}]}}`, ""},
		{"no YAML", "spec: [", "no YAML"},
		{"nothing", "", "spec.containers: at least the engine's"},
		{"a list where there is one value", "{spec: {restartPolicy: [Never], containers: [{name: v}]}}",
			"Spec.RestartPolicy"},
		{"another kind", "{kind: Deployment, spec: {containers: [{name: v}]}}", "kind: Deployment: want Pod"},
		{"a name", "{metadata: {name: x}, spec: {containers: [{name: v}]}}", "metadata.name: Millrace names the pods"},
		{"a namespace", "{metadata: {namespace: x}, spec: {containers: [{name: v}]}}", "set kubernetes.namespace"},
		{"a label of Millrace", "{metadata: {labels: {millrace.dev/deployment: other}}, spec: {containers: [{name: v}]}}",
			"metadata.labels: millrace.dev/deployment is set by Millrace"},
		{"another restart policy", "{spec: {restartPolicy: Always, containers: [{name: v}]}}", "Millrace sets Never"},
		{"the id", "{spec: {containers: [{name: v, env: [{name: MILLRACE_ENGINE_ID, value: x}]}]}}",
			"spec.containers[0].env: MILLRACE_ENGINE_ID is set by Millrace"},
		{"the id in an init container", `{spec: {initContainers: [{name: i, env: [{name: MILLRACE_ENGINE_ID, value: x}]}],
			containers: [{name: v}]}}`, "spec.initContainers[0].env: MILLRACE_ENGINE_ID is set by Millrace"},
		{"a default container that is not there", `{metadata: {annotations: {kubectl.kubernetes.io/default-container: x}},
			spec: {containers: [{name: v}]}}`, "no container is named x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := parseTemplate([]byte(strings.ReplaceAll(tt.text, "\t", " ")))
			if tt.fault == "" && err != nil || tt.fault != "" && (err == nil || !strings.Contains(err.Error(), tt.fault)) {
				t.Errorf("fault %v, want %q", err, tt.fault)
			}
		})
	}
}

// TestPodOfAnEngine is what of a pod is the operator's and what Millrace's.
func TestPodOfAnEngine(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "template.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	template, err := parseTemplate(text)
	if err != nil {
		t.Fatal(err)
	}
	got, err := yaml.Marshal(template.podFor("rl-team-a", "scaled-7"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join("testdata", "pod.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("testdata/pod.yaml differs; got:\n%s", got)
	}
	if again, _ := yaml.Marshal(template.podFor("rl-team-a", "scaled-7")); string(again) != string(got) {
		t.Error("a second pod of the template differs: the first one changed the template")
	}
}
