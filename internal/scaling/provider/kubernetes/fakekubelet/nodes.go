package fakekubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// GPU is the resource by which GPUs are counted.
const GPU core.ResourceName = "nvidia.com/gpu"

// AddNode adds a node with GPUs, ready for pods, unless it is there.
func (k *Kubelet) AddNode(ctx context.Context, name string, gpus int64, labels map[string]string) error {
	node := core.Node{ObjectMeta: meta.ObjectMeta{Name: name, Labels: labels}}
	if err := k.api.Post().Resource("nodes").Body(&node).Do(ctx).Error(); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("add node %s: %w", name, err)
	}
	has := core.ResourceList{
		GPU: *resource.NewQuantity(gpus, resource.DecimalSI), core.ResourcePods: resource.MustParse("250"),
		core.ResourceCPU: resource.MustParse("1000"), core.ResourceMemory: resource.MustParse("10Ti"),
	}
	status := core.NodeStatus{Capacity: has, Allocatable: has, Conditions: []core.NodeCondition{{Type: core.NodeReady,
		Status: core.ConditionTrue, Reason: "KubeletReady"}}}
	if err := k.patchNode(ctx, name, "status", map[string]any{"status": status}); err != nil {
		return err
	}
	return k.Taint(ctx, name) // the API server taints a new node as not ready
}

// Cordon keeps new pods from a node, or lets them come again.
func (k *Kubelet) Cordon(ctx context.Context, name string, cordoned bool) error {
	return k.patchNode(ctx, name, "", map[string]any{"spec": map[string]any{"unschedulable": cordoned}})
}

// Taint has a node carry these taints and no others.
func (k *Kubelet) Taint(ctx context.Context, name string, taints ...core.Taint) error {
	return k.patchNode(ctx, name, "", map[string]any{"spec": map[string]any{"taints": append([]core.Taint{}, taints...)}})
}

// RemoveNode takes a node away, as happens to spot machines; what ran there ends.
func (k *Kubelet) RemoveNode(ctx context.Context, name string) error {
	k.mu.Lock()
	for _, r := range k.runs {
		if r.pod.Spec.NodeName == name {
			r.stop(0, 0)
		}
	}
	k.mu.Unlock()
	return k.api.Delete().Resource("nodes").Name(name).Do(ctx).Error()
}

func (k *Kubelet) patchNode(ctx context.Context, name, part string, change any) error {
	text, err := json.Marshal(change)
	if err != nil {
		return err
	}
	request := k.api.Patch(types.MergePatchType).Resource("nodes").Name(name)
	if part != "" {
		request = request.SubResource(part)
	}
	if err := request.Body(text).Do(ctx).Error(); err != nil {
		return fmt.Errorf("change node %s: %w", name, err)
	}
	return nil
}

func (k *Kubelet) nodes(ctx context.Context) ([]core.Node, error) {
	var list core.NodeList
	err := k.api.Get().Resource("nodes").Do(ctx).Into(&list)
	return list.Items, err
}

func (k *Kubelet) pods(ctx context.Context) ([]core.Pod, error) {
	var list core.PodList
	err := k.api.Get().Namespace(k.cfg.Namespace).Resource("pods").Do(ctx).Into(&list)
	return list.Items, err
}

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
