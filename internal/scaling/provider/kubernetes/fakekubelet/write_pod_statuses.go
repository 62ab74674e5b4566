package fakekubelet

import (
	"context"
	"encoding/json"
	"strings"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// MissingImage is part of the name of images that no registry has.
const MissingImage = "no-such-image"

func missingImage(pod *core.Pod) string {
	for _, c := range pod.Spec.Containers {
		if strings.Contains(c.Image, MissingImage) {
			return c.Image
		}
	}
	return ""
}

// waiting is the status of a pod whose containers cannot run yet.
func waiting(pod *core.Pod, reason, message string) core.PodStatus {
	state := core.ContainerState{Waiting: &core.ContainerStateWaiting{Reason: reason, Message: message}}
	return core.PodStatus{Phase: core.PodPending, ContainerStatuses: containers(pod, state, false)}
}

// status is what a kubelet says of a pod that it has started.
func (r *running) status() core.PodStatus {
	status := core.PodStatus{
		PodIP: r.ip.String(), PodIPs: []core.PodIP{{IP: r.ip.String()}}, HostIP: "127.0.0.1", StartTime: &r.since,
	}
	if !r.isOver() {
		status.Phase = core.PodRunning
		status.ContainerStatuses = containers(r.pod,
			core.ContainerState{Running: &core.ContainerStateRunning{StartedAt: r.since}}, true)
		return status
	}
	ended := core.ContainerStateTerminated{ExitCode: 137, Reason: "Error", StartedAt: r.since, FinishedAt: meta.Now()}
	if r.oom {
		ended.Reason = "OOMKilled"
	}
	status.Phase = core.PodFailed
	status.ContainerStatuses = containers(r.pod, core.ContainerState{Terminated: &ended}, false)
	return status
}

func containers(pod *core.Pod, state core.ContainerState, ready bool) []core.ContainerStatus {
	var all []core.ContainerStatus
	for _, c := range pod.Spec.Containers {
		all = append(all, core.ContainerStatus{Name: c.Name, Image: c.Image, State: state, Ready: ready, Started: &ready})
	}
	return all
}

// tellOf writes what became of a pod that runs, unless the API server knows it.
func (k *Kubelet) tellOf(ctx context.Context, pod *core.Pod, r *running) {
	k.mu.Lock()
	status := r.status()
	k.mu.Unlock()
	k.tell(ctx, pod, status)
}

// tell writes a pod's status, unless it is what the API server has.
func (k *Kubelet) tell(ctx context.Context, pod *core.Pod, status core.PodStatus) {
	if status.Phase == pod.Status.Phase && len(pod.Status.ContainerStatuses) == len(status.ContainerStatuses) {
		return
	}
	_ = k.patchStatus(ctx, pod, status)
}

func (k *Kubelet) patchStatus(ctx context.Context, pod *core.Pod, status core.PodStatus) error {
	change, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return err
	}
	return k.api.Patch(types.MergePatchType).Namespace(pod.Namespace).Resource("pods").Name(pod.Name).
		SubResource("status").Body(change).Do(ctx).Error()
}

// remove takes away a pod of which nothing runs.
func (k *Kubelet) remove(ctx context.Context, pod *core.Pod) error {
	var now int64
	return k.api.Delete().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).
		Body(&meta.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &meta.Preconditions{UID: &pod.UID}}).
		Do(ctx).Error()
}
