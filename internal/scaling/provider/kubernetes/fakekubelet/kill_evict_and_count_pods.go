package fakekubelet

import (
	"context"
	"fmt"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Running counts those of the pods whose container runs.
func (k *Kubelet) Running(of func(*core.Pod) bool) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, r := range k.runs {
		if !r.isOver() && of(r.pod) {
			n++
		}
	}
	return n
}

// Kill ends the containers of pods at once: for want of memory, where oom.
func (k *Kubelet) Kill(of func(*core.Pod) bool, oom bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.runs {
		if of(r.pod) {
			r.oom = oom
			r.stop(0, 0)
		}
	}
}

// EvictForPressure does what a kubelet does whose node is short of something: the pod fails, and is left to be read. A
// look that has it on its list as one that is to run would start it again.
func (k *Kubelet) EvictForPressure(ctx context.Context, pod *core.Pod) error {
	k.looking.Lock()
	defer k.looking.Unlock()
	k.mu.Lock()
	if r := k.runs[pod.UID]; r != nil {
		r.stop(0, 0)
		delete(k.runs, pod.UID)
	}
	k.mu.Unlock()
	return k.patchStatus(ctx, pod, core.PodStatus{
		Phase: core.PodFailed, Reason: "Evicted",
		Message: "The node was low on resource: ephemeral-storage.",
		Conditions: []core.PodCondition{{
			Type: core.DisruptionTarget, Status: core.ConditionTrue, Reason: "TerminationByKubelet",
			LastTransitionTime: meta.Now(),
		}},
	})
}

// Evict asks the eviction API to end a pod, as `kubectl drain` and autoscalers do.
func (k *Kubelet) Evict(ctx context.Context, pod *core.Pod) error {
	body := fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q,"namespace":%q}}`,
		pod.Name, pod.Namespace)
	return k.api.Post().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("eviction").
		SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(ctx).Error()
}

// Delete deletes a pod as `kubectl delete` does.
func (k *Kubelet) Delete(ctx context.Context, pod *core.Pod) error {
	return k.api.Delete().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).Do(ctx).Error()
}

// Pods are the pods there are.
func (k *Kubelet) Pods(ctx context.Context) ([]core.Pod, error) { return k.pods(ctx) }
