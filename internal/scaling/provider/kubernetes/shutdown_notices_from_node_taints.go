package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/provider"
)

// notice announces that a node's machine goes away. The zero value stands for no notice.
type notice struct {
	Reason   string
	LeavesAt time.Time // zero: not told
	Gone     bool      // the cluster does not know the node any more
}

// usualNotices are the taints by which clouds and autoscalers announce the end of a node, with the time that its pods
// then have. A node that stays never gets one; taints of mere candidates for removal are left out.
var usualNotices = map[string]time.Duration{
	"aws-node-termination-handler/spot-itn":                  2 * time.Minute, // EC2 says so two minutes before
	"aws-node-termination-handler/scheduled-maintenance":     2 * time.Minute,
	"aws-node-termination-handler/asg-lifecycle-termination": 2 * time.Minute,
	"cloud.google.com/impending-node-termination":            15 * time.Second, // of 30 s, pods have the first half
	"remediator.kubernetes.azure.com/unschedulable":          30 * time.Second,
	"remediator.aks.microsoft.com/unschedulable":             30 * time.Second, // of AKS before 2024
	"cloudprovider.azure.microsoft.com/draining":             30 * time.Second,
	"karpenter.sh/disrupted":                                 2 * time.Minute,
	"karpenter.sh/disruption":                                2 * time.Minute, // of Karpenter before 1.0
	clusterAutoscaler:                                        2 * time.Minute,
	"node.cloudprovider.kubernetes.io/shutdown":              0, // the machine is off already
	"node.kubernetes.io/out-of-service":                      0,
}

// clusterAutoscaler has the Unix time of the taint as its value.
const clusterAutoscaler = "ToBeDeletedByClusterAutoscaler"

// usualConditions are conditions of a node with the same meaning: those of AKS, from the scheduled events of Azure.
var usualConditions = map[string]time.Duration{
	"PreemptScheduled":   30 * time.Second,
	"TerminateScheduled": 5 * time.Minute,
	"RedeployScheduled":  10 * time.Minute,
}

// shutdownLead is the shortest time that clouds let a kubelet give to pods when it shuts its node down in good order.
const shutdownLead = 15 * time.Second

// noticeTaints are the usual ones with an operator's.
func noticeTaints(own []Notice) map[string]time.Duration {
	all := maps.Clone(usualNotices)
	for _, n := range own {
		if _, usual := all[n.Taint]; usual && n.Lead == 0 {
			delete(all, n.Taint)
			continue
		}
		all[n.Taint] = n.Lead.Std()
	}
	return all
}

// readNotice is a node's notice; of several, the one that leaves the least time. seen is when this process first saw a
// taint that does not carry its time.
func readNotice(node *nodeObject, taints map[string]time.Duration, seen func(taint string) time.Time) notice {
	var first notice
	add := func(reason string, at time.Time) {
		if first.Reason == "" || at.Before(first.LeavesAt) {
			first = notice{Reason: fmt.Sprintf("node %s: %s", node.Name, reason), LeavesAt: at}
		}
	}
	if !node.DeletionTimestamp.IsZero() {
		add("it is being deleted", node.DeletionTimestamp)
	}
	for _, taint := range node.Spec.Taints {
		if lead, known := taints[taint.Key]; known && taint.Effect != "PreferNoSchedule" {
			add("taint "+taint.Key, taintedAt(taint, seen).Add(lead))
		}
	}
	for _, c := range node.Status.Conditions {
		lead, known := usualConditions[c.Type]
		switch {
		case known && c.Status == "True":
			add(sentence(c.Type, c.Reason, c.Message), c.LastTransitionTime.Add(lead))
		case c.Type == "Ready" && c.Status == "False" &&
			strings.Contains(c.Message, "node is shutting down"):
			add(c.Message, c.LastTransitionTime.Add(shutdownLead))
		}
	}
	return first
}

// taintedAt: the creator of a taint may set its time; most do so for NoExecute alone.
func taintedAt(taint nodeTaint, seen func(string) time.Time) time.Time {
	if !taint.TimeAdded.IsZero() {
		return taint.TimeAdded
	}
	if taint.Key == clusterAutoscaler {
		if seconds, err := strconv.ParseInt(taint.Value, 10, 64); err == nil && seconds > 0 {
			return time.Unix(seconds, 0)
		}
	}
	return seen(taint.Key)
}

// announced is an engine with what its node announces.
func announced(e provider.Instance, n notice) provider.Instance {
	switch {
	case n.Reason == "" || e.State == enginestate.EngineFailed:
		return e
	case n.Gone:
		e.State, e.Reason, e.URL = enginestate.EngineFailed, n.Reason, ""
		return e
	}
	if e.LeavesAt.IsZero() || n.LeavesAt.Before(e.LeavesAt) {
		e.LeavesAt = n.LeavesAt
	}
	e.Reason = strings.Join(slices.DeleteFunc([]string{n.Reason, e.Reason}, func(s string) bool { return s == "" }), "; ")
	return e
}
