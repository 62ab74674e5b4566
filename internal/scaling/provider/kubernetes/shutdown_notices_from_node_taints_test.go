package kubernetes

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/provider"
)

// TestNodeNotices has nodes as clouds and autoscalers announce that they go, and the time that engines there have.
func TestNodeNotices(t *testing.T) {
	t.Parallel()
	seen := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	own := []Notice{
		{Taint: "example.com/reclaimed", Lead: rollout.Duration(45 * time.Second)}, {Taint: "karpenter.sh/disrupted"},
	}
	for _, tt := range []struct{ name, node, leaves, reason string }{
		{"nothing", `{spec: {}}`, "", ""},
		{"spot capacity that stays", `{spec: {taints: [{key: kubernetes.azure.com/scalesetpriority, value: spot,
			effect: NoSchedule}, {key: nvidia.com/gpu, effect: NoSchedule}]}}`, "", ""},
		{"cordoned", `{spec: {unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}}`,
			"", ""},
		{"a candidate of the cluster autoscaler", `{spec: {taints: [{key: DeletionCandidateOfClusterAutoscaler,
			effect: PreferNoSchedule}]}}`, "", ""},
		{"EC2 spot, tainted without a time", `{spec: {taints: [{key: aws-node-termination-handler/spot-itn, value: "7",
			effect: NoSchedule}]}}`, "2026-11-23T10:02:00Z", "aws-node-termination-handler/spot-itn"},
		{"EC2 spot, tainted with a time", `{spec: {taints: [{key: aws-node-termination-handler/spot-itn,
			effect: NoExecute, timeAdded: "2026-11-23T09:59:10Z"}]}}`, "2026-11-23T10:01:10Z", "spot-itn"},
		{"GKE", `{spec: {taints: [{key: cloud.google.com/impending-node-termination, effect: NoSchedule}]}}`,
			"2026-11-23T10:00:15Z", "impending-node-termination"},
		{"AKS, by its taint", `{spec: {taints: [{key: remediator.kubernetes.azure.com/unschedulable, effect: NoSchedule}]}}`,
			"2026-11-23T10:00:30Z", "remediator"},
		{"AKS, by its condition", `{status: {conditions: [{type: PreemptScheduled, status: "True", reason: VMEventScheduled,
			lastTransitionTime: "2026-11-23T09:59:50Z"}]}}`, "2026-11-23T10:00:20Z", "PreemptScheduled: VMEventScheduled"},
		{"AKS, no event", `{status: {conditions: [{type: PreemptScheduled, status: "False"}]}}`, "", ""},
		{"cluster autoscaler", `{spec: {taints: [{key: ToBeDeletedByClusterAutoscaler, value: "1795428000",
			effect: NoSchedule}]}}`, "2026-11-23T10:02:00Z", "ToBeDeletedByClusterAutoscaler"},
		{"the machine is off", `{spec: {taints: [{key: node.cloudprovider.kubernetes.io/shutdown, effect: NoSchedule}]}}`,
			"2026-11-23T10:00:00Z", "shutdown"},
		{"a kubelet shuts its node down", `{status: {conditions: [{type: Ready, status: "False", reason: KubeletNotReady,
			message: node is shutting down, lastTransitionTime: "2026-11-23T10:00:00Z"}]}}`,
			"2026-11-23T10:00:15Z", "node is shutting down"},
		{"not ready for another reason", `{status: {conditions: [{type: Ready, status: "False", reason: KubeletNotReady,
			message: container runtime is down}]}}`, "", ""},
		{"the node is deleted", `{metadata: {deletionTimestamp: "2026-11-23T10:00:05Z"}}`, "2026-11-23T10:00:05Z",
			"it is being deleted"},
		{"an operator's own", `{spec: {taints: [{key: example.com/reclaimed, effect: NoExecute,
			timeAdded: "2026-11-23T10:00:00Z"}]}}`, "2026-11-23T10:00:45Z", "example.com/reclaimed"},
		{"a usual one that an operator took out", `{spec: {taints: [{key: karpenter.sh/disrupted, effect: NoSchedule}]}}`,
			"", ""},
		{"of two the earlier", `{spec: {taints: [{key: aws-node-termination-handler/spot-itn, effect: NoSchedule},
			{key: node.kubernetes.io/out-of-service, effect: NoExecute}]}}`, "2026-11-23T10:00:00Z", "out-of-service"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var node nodeObject
			if err := yaml.Unmarshal([]byte(strings.ReplaceAll(tt.node, "\t", " ")), &node); err != nil {
				t.Fatal(err)
			}
			n := readNotice(&node, noticeTaints(own), func(string) time.Time { return seen })
			if when(n.LeavesAt) != tt.leaves || !strings.Contains(n.Reason, tt.reason) || tt.reason == "" && n.Reason != "" {
				t.Errorf("leaves at %q because of %q; want %q, %q", when(n.LeavesAt), n.Reason, tt.leaves, tt.reason)
			}
		})
	}
}

// TestWhoseTimeIsShorter: an engine leaves with its pod or with its node, whichever goes first.
func TestWhoseTimeIsShorter(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	runs := provider.Instance{ID: "a", State: enginestate.EngineRunning, URL: "http://10.0.0.1:8000"}
	ending := provider.Instance{ID: "a", State: enginestate.EngineStopping, LeavesAt: at, Reason: "deleted"}
	failed := provider.Instance{ID: "a", State: enginestate.EngineFailed, Reason: "OOMKilled"}
	later := notice{Reason: "spot", LeavesAt: at.Add(time.Minute)}
	gone := notice{Reason: "its node is no longer in the cluster", Gone: true}
	for _, tt := range []struct {
		name   string
		engine provider.Instance
		notice notice
		want   provider.Instance
	}{
		{"no notice", runs, notice{}, runs},
		{"a notice", runs, later, provider.Instance{ID: "a", State: enginestate.EngineRunning, URL: runs.URL,
			LeavesAt: later.LeavesAt, Reason: "spot"}},
		{"its pod goes before", ending, later, provider.Instance{ID: "a", State: enginestate.EngineStopping, LeavesAt: at,
			Reason: "spot; deleted"}},
		{"it has failed", failed, later, failed},
		{"its node is gone", runs, gone, provider.Instance{ID: "a", State: enginestate.EngineFailed, Reason: gone.Reason}},
	} {
		if got := announced(tt.engine, tt.notice); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
