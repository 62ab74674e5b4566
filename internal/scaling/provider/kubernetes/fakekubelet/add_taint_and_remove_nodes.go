package fakekubelet

import (
	"context"
	"encoding/json"
	"fmt"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	k.looking.Lock()
	defer k.looking.Unlock()
	k.mu.Lock()
	for _, r := range k.runs {
		if r.pod.Spec.NodeName == name {
			r.stop(0, 0)
		}
	}
	k.mu.Unlock()
	return k.api.Delete().Resource("nodes").Name(name).Do(ctx).Error()
}

// patchNode waits for a look that has listed the nodes as they were: it would bind pods by that list.
func (k *Kubelet) patchNode(ctx context.Context, name, part string, change any) error {
	k.looking.Lock()
	defer k.looking.Unlock()
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
