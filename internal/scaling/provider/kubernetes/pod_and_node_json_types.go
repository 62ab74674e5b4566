package kubernetes

import "time"

// The fields of pods and nodes that are read here, and no others. Kubernetes writes their names with a small letter,
// which encoding/json takes for the same.

type podObject struct {
	Kind, APIVersion string
	metadata         `json:"metadata"`
	Spec             struct {
		NodeName, RestartPolicy       string
		TerminationGracePeriodSeconds *int64
		InitContainers, Containers    []container
	}
	Status struct {
		Phase, Reason, Message, PodIP            string
		Conditions                               []objectCondition
		InitContainerStatuses, ContainerStatuses []containerStatus
	}
}

type podList struct {
	Metadata struct{ Continue string }
	Items    []podObject
}

type metadata struct {
	Name, GenerateName, Namespace, UID string
	Labels, Annotations                map[string]string
	CreationTimestamp                  time.Time
	DeletionTimestamp                  time.Time // zero: not being deleted
}

type container struct {
	Name string
	Env  []variable
}

type variable struct{ Name string }

type containerStatus struct {
	Name  string
	State struct {
		Waiting    *struct{ Reason, Message string }
		Running    *struct{}
		Terminated *ending
	}
}

// ending is how a container ended.
type ending struct {
	ExitCode, Signal int
	Reason, Message  string
}

type objectCondition struct {
	Type, Status, Reason, Message string
	LastTransitionTime            time.Time
}

type nodeObject struct {
	metadata `json:"metadata"`
	Spec     struct{ Taints []nodeTaint }
	Status   struct{ Conditions []objectCondition }
}

type nodeTaint struct {
	Key, Value, Effect string
	TimeAdded          time.Time
}
