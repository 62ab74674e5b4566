//go:build linux

package podsandbox

import (
	core "k8s.io/api/core/v1"
)

// pending is the status of a pod of which nothing runs yet.
func (p *pod) pending(reason, message string) core.PodStatus {
	state := core.ContainerState{Waiting: &core.ContainerStateWaiting{Reason: reason, Message: message}}
	status := core.PodStatus{Phase: core.PodPending}
	for _, c := range p.manifest.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses,
			core.ContainerStatus{Name: c.Name, Image: c.Image, State: state})
	}
	status.Conditions = conditions(false, false)
	return status
}

// statusOf is the pod's status while one of its containers is in a state.
func (p *pod) statusOf(c *core.Container, state core.ContainerState, init, ready bool, restarts int) core.PodStatus {
	is := core.ContainerStatus{
		Name: c.Name, Image: c.Image, State: state, Ready: ready, Started: &ready, RestartCount: int32(restarts),
	}
	if init {
		status := p.pending("PodInitializing", "")
		status.InitContainerStatuses = []core.ContainerStatus{is}
		return status
	}
	status := core.PodStatus{
		Phase: core.PodRunning, Conditions: conditions(true, ready), InitContainerStatuses: p.initDone(),
		ContainerStatuses: []core.ContainerStatus{is},
	}
	if t := state.Terminated; t != nil && p.manifest.Spec.RestartPolicy != core.RestartPolicyAlways {
		status.Phase = core.PodSucceeded
		if t.ExitCode != 0 {
			status.Phase = core.PodFailed
		}
	}
	return status
}

// initDone are the statuses of init containers, once all of them have ended as they should.
func (p *pod) initDone() (all []core.ContainerStatus) {
	for _, c := range p.manifest.Spec.InitContainers {
		state := core.ContainerState{Terminated: &core.ContainerStateTerminated{Reason: "Completed"}}
		all = append(all, core.ContainerStatus{Name: c.Name, Image: c.Image, State: state, Ready: true})
	}
	return all
}

func conditions(initialized, ready bool) []core.PodCondition {
	is := func(kind core.PodConditionType, yes bool) core.PodCondition {
		c := core.PodCondition{Type: kind, Status: core.ConditionFalse}
		if yes {
			c.Status = core.ConditionTrue
		}
		return c
	}
	return []core.PodCondition{
		is(core.PodInitialized, initialized), is(core.ContainersReady, ready), is(core.PodReady, ready),
	}
}
