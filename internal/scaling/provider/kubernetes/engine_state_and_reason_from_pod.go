package kubernetes

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/provider"
)

// longestReason bounds an explanation. A container's last words are cut at the front: the end says most.
const longestReason = 600

// instance converts a pod. The end of its node's machine is added later.
func instance(pod *podObject, cfg Config) provider.Instance {
	state, reason := podState(pod)
	e := provider.Instance{
		ID: rollout.EngineID(pod.Annotations[annotationEngine]), State: state, Reason: reason,
		Since: pod.CreationTimestamp, MaxInFlight: cfg.MaxInFlight,
	}
	e.LeavesAt = leavesAt(pod)
	if pod.Status.PodIP != "" && state != enginestate.EngineFailed {
		e.URL = cfg.Scheme + "://" + net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(cfg.Port))
	}
	return e
}

// leavesAt is when the pod's grace is over: as the API server counts it from the deletion, or from the announced one.
func leavesAt(pod *podObject) time.Time {
	if !pod.DeletionTimestamp.IsZero() {
		return pod.DeletionTimestamp
	}
	c := condition(pod, "DisruptionTarget")
	if c == nil || c.Status != "True" || c.LastTransitionTime.IsZero() {
		return time.Time{}
	}
	grace := int64(30) // so Kubernetes has it
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	return c.LastTransitionTime.Add(time.Duration(grace) * time.Second)
}

// podState is where an engine is in its life, and why. It goes by the engine's container, not by the pod alone: while
// another container of the pod runs, so does the pod.
func podState(pod *podObject) (enginestate.EngineState, string) {
	engine := engineStatus(pod)
	ended := engine != nil && engine.State.Terminated != nil
	switch {
	case pod.Status.Phase == "Failed" || pod.Status.Phase == "Succeeded" || ended:
		return enginestate.EngineFailed, whyEnded(pod, engine)
	case !pod.DeletionTimestamp.IsZero():
		return enginestate.EngineStopping, whyDeleted(pod)
	case pod.Status.Phase == "Unknown":
		return enginestate.EngineRunning, sentence("the node does not report", pod.Status.Reason, pod.Status.Message)
	case engine != nil && engine.State.Running != nil:
		return enginestate.EngineRunning, disruption(pod)
	}
	return enginestate.EngineOrdered, whyPending(pod)
}

// whyPending is the first thing that is missing: a node, an init container's end, an image.
func whyPending(pod *podObject) string {
	if c := condition(pod, "PodScheduled"); c != nil && c.Status == "False" {
		return sentence("", c.Reason, c.Message)
	}
	if pod.Spec.NodeName == "" {
		return "the scheduler has not looked at it yet"
	}
	for _, list := range [][]containerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, c := range list {
			if w := c.State.Waiting; w != nil && w.Reason != "PodInitializing" {
				return sentence("container "+c.Name, w.Reason, w.Message)
			}
			if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
				return sentence("container "+c.Name, exit(t), t.Message)
			}
		}
	}
	return sentence("on node "+pod.Spec.NodeName, pod.Status.Reason, pod.Status.Message)
}

// whyEnded names what ended the pod (Evicted, Terminated by a node's shutdown, ...), then what the engine's container
// left.
func whyEnded(pod *podObject, engine *containerStatus) string {
	var parts []string
	if text := sentence("", pod.Status.Reason, pod.Status.Message); text != "" {
		parts = append(parts, text)
	}
	if text := disruption(pod); text != "" {
		parts = append(parts, text)
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		t := c.State.Terminated
		if t != nil && (t.ExitCode != 0 || engine != nil && c.Name == engine.Name) {
			parts = append(parts, sentence("container "+c.Name, exit(t), t.Message))
		}
	}
	if len(parts) == 0 {
		return "it ended by itself; the pod does not say why"
	}
	return shorten(strings.Join(parts, "; "))
}

func exit(t *ending) string {
	text := fmt.Sprintf("exit code %d", t.ExitCode)
	if t.Signal != 0 {
		text = fmt.Sprintf("signal %d", t.Signal)
	}
	if t.Reason == "" || t.Reason == "Error" || t.Reason == "Completed" {
		return "ended with " + text
	}
	return t.Reason + " (" + text + ")"
}

// whyDeleted: Kubernetes does not keep who deleted a pod, but says so where it was its own doing.
func whyDeleted(pod *podObject) string {
	if text := disruption(pod); text != "" {
		return text
	}
	return "its pod is being deleted, not by Millrace"
}

// disruption is the announcement that a pod is about to be ended by Kubernetes: EvictionByEvictionAPI,
// PreemptionByScheduler, DeletionByTaintManager, TerminationByKubelet and the like.
func disruption(pod *podObject) string {
	if c := condition(pod, "DisruptionTarget"); c != nil && c.Status == "True" {
		return sentence("", c.Reason, c.Message)
	}
	return ""
}

func condition(pod *podObject, kind string) *objectCondition {
	at := slices.IndexFunc(pod.Status.Conditions, func(c objectCondition) bool { return c.Type == kind })
	if at < 0 {
		return nil
	}
	return &pod.Status.Conditions[at]
}

// engineStatus is that of the engine's container; nil: it has none yet.
func engineStatus(pod *podObject) *containerStatus {
	name, all := engineContainer(pod), pod.Status.ContainerStatuses
	at := slices.IndexFunc(all, func(c containerStatus) bool { return c.Name == name })
	if at < 0 {
		return nil
	}
	return &all[at]
}

// sentence joins "of: reason: message", without the empty parts.
func sentence(of, reason, message string) string {
	var parts []string
	for _, part := range []string{of, reason, strings.TrimSpace(message)} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return shorten(strings.Join(parts, ": "))
}

// shorten keeps the beginning and the end.
func shorten(text string) string {
	if len(text) <= longestReason {
		return text
	}
	const head = 150
	return strings.ToValidUTF8(text[:head], "") + " ... " + strings.ToValidUTF8(text[len(text)-longestReason+head+5:], "")
}
