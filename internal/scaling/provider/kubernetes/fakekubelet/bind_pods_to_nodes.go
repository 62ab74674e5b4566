package fakekubelet

import (
	"context"
	"fmt"
	"slices"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// bind gives each pod that has no node the first that has room for it, or says that there is none.
func (k *Kubelet) bind(ctx context.Context, nodes []core.Node, pods []core.Pod) {
	free := map[string]int64{}
	for _, n := range nodes {
		if !n.Spec.Unschedulable && len(n.Spec.Taints) == 0 {
			free[n.Name] = n.Status.Allocatable.Name(GPU, resource.DecimalSI).Value()
		}
	}
	for _, pod := range pods {
		if pod.Status.Phase == core.PodPending || pod.Status.Phase == core.PodRunning {
			free[pod.Spec.NodeName] -= gpus(&pod)
		}
	}
	for i := range pods {
		pod := &pods[i]
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
			continue
		}
		selector := labels.SelectorFromSet(pod.Spec.NodeSelector)
		at := slices.IndexFunc(nodes, func(n core.Node) bool {
			f, open := free[n.Name]
			return open && f >= gpus(pod) && selector.Matches(labels.Set(n.Labels))
		})
		if at < 0 {
			k.unschedulable(ctx, pod, len(nodes))
			continue
		}
		free[nodes[at].Name] -= gpus(pod)
		binding := core.Binding{
			ObjectMeta: meta.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
			Target:     core.ObjectReference{Kind: "Node", Name: nodes[at].Name},
		}
		_ = k.api.Post().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("binding").Body(&binding).
			Do(ctx).Error()
	}
}

func (k *Kubelet) unschedulable(ctx context.Context, pod *core.Pod, nodes int) {
	if len(pod.Status.Conditions) > 0 {
		return
	}
	_ = k.patchStatus(ctx, pod, core.PodStatus{Phase: core.PodPending, Conditions: []core.PodCondition{{
		Type: core.PodScheduled, Status: core.ConditionFalse, Reason: core.PodReasonUnschedulable,
		Message: fmt.Sprintf("0/%d nodes are available: insufficient %s", nodes, GPU),
	}}})
}

func gpus(pod *core.Pod) int64 {
	var n int64
	for _, c := range pod.Spec.Containers {
		n += c.Resources.Limits.Name(GPU, resource.DecimalSI).Value()
	}
	return n
}
