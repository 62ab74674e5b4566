package kubernetes_test

import (
	"os"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/provider"
	"github.com/millrace/millrace/internal/scaling/provider/kubernetes"
	"github.com/millrace/millrace/internal/scaling/provider/kubernetes/fakekubelet"
)

// ending is how long engines take in clusters of which pods are taken away.
const ending = 2 * time.Second

// disruptions are what happens to engines' pods in clusters. They are tried with an API server in memory and with a
// real one.
var disruptions = []struct {
	name string
	test func(*testing.T, *cluster)
}{
	{"a pod that somebody deletes is announced, and then gone", deletedPod},
	{"a pod that is evicted through the API is announced with the reason", evictedPod},
	{"a pod that its node evicts has failed, and is there until it is stopped", podEvictedByNode},
	{"a pod whose image is missing is pending with the reason, and is replaced", missingImage},
	{"a pod for which there is no room says what the scheduler says", noRoom},
	{"what Millrace stops is listed no more, while it still ends", stoppedPod},
	{"a spot machine's notice reaches its engines, and is taken back", spotNotice},
	{"engines of a machine that is gone have failed", goneNode},
	{"an eviction of an engine that is stopped meanwhile ends it sooner", stoppedWhileEvicted},
}

func TestDisruptions(t *testing.T) {
	t.Parallel()
	for _, tt := range disruptions {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.test(t, newCluster(t, ending))
		})
	}
}

// announcedFor waits until an engine is announced to leave with the grace of its pod, 60 s.
func (c *cluster) announcedFor(t *testing.T, p provider.Provider, began time.Time) provider.Instance {
	t.Helper()
	e := c.await(t, p, "scaled-1", "ending", func(
		e provider.Instance) bool {
		return e.State == enginestate.EngineStopping
	})
	if left := e.LeavesAt.Sub(began); left < 50*time.Second || left > 90*time.Second {
		t.Errorf("it leaves %s after that, want about 60 s: %+v", left, e)
	}
	if e.URL == "" {
		t.Error("it has no address any more, though it still serves")
	}
	return e
}

func deletedPod(t *testing.T, c *cluster) {
	p := c.open(t, "ours")
	c.start(t, p, "scaled-1", "scaled-2")
	began := time.Now()
	c.must(t, c.kubelet.Delete(t.Context(), c.pod(t, "ours", "scaled-1")))
	if e := c.announcedFor(t, p, began); !strings.Contains(e.Reason, "not by Millrace") {
		t.Errorf("reason %q", e.Reason)
	}
	c.must(t, p.Start(t.Context(), "scaled-1")) // it is there, and is left as it is
	c.gone(t, p, "scaled-1")
	c.running(t, p, "scaled-2")
}

func evictedPod(t *testing.T, c *cluster) {
	p := c.open(t, "ours")
	c.start(t, p, "scaled-1")
	began := time.Now()
	c.must(t, c.kubelet.Evict(t.Context(), c.pod(t, "ours", "scaled-1")))
	if e := c.announcedFor(t, p, began); !strings.Contains(e.Reason, "EvictionByEvictionAPI") {
		t.Errorf("reason %q", e.Reason)
	}
	c.gone(t, p, "scaled-1")
}

func podEvictedByNode(t *testing.T, c *cluster) {
	p := c.open(t, "ours")
	c.start(t, p, "scaled-1")
	c.must(t, c.kubelet.EvictForPressure(t.Context(), c.pod(t, "ours", "scaled-1")))
	e := c.await(t, p, "scaled-1", "failed", func(e provider.Instance) bool { return e.State == enginestate.EngineFailed })
	if !strings.Contains(e.Reason, "Evicted: The node was low on resource") || e.URL != "" {
		t.Errorf("listed as %+v", e)
	}
	c.must(t, p.Stop(t.Context(), "scaled-1"))
	c.gone(t, p, "scaled-1")
	if pod := c.pod(t, "ours", "scaled-1"); pod != nil {
		t.Errorf("its pod is left: %+v", pod.Status)
	}
}

func missingImage(t *testing.T, c *cluster) {
	file := write(t, "pod.yaml", strings.ReplaceAll(strings.ReplaceAll(template, "CLUSTER", c.name),
		"vllm/vllm-openai", fakekubelet.MissingImage))
	p := c.open(t, "ours", func(cfg *kubernetes.Config) { cfg.Template = file })
	c.must(t, p.Start(t.Context(), "scaled-1"))
	e := c.await(t, p, "scaled-1", "pending with the reason", func(e provider.Instance) bool {
		return e.State == enginestate.EngineOrdered && strings.Contains(e.Reason, "ImagePullBackOff")
	})
	if !strings.Contains(e.Reason, "container vllm") || !strings.Contains(e.Reason, fakekubelet.MissingImage) {
		t.Errorf("reason %q", e.Reason)
	}
	text := strings.ReplaceAll(template, "CLUSTER", c.name)
	c.must(t, os.WriteFile(file, []byte(text), 0o600)) // as its operator repairs it
	c.must(t, p.Stop(t.Context(), "scaled-1"))
	c.start(t, p, "scaled-2")
	c.gone(t, p, "scaled-1")
}

func noRoom(t *testing.T, c *cluster) {
	c.must(t, c.kubelet.Cordon(t.Context(), c.node, true))
	p := c.open(t, "ours")
	c.must(t, p.Start(t.Context(), "scaled-1"))
	c.await(t, p, "scaled-1", "unschedulable", func(e provider.Instance) bool {
		return e.State == enginestate.EngineOrdered && strings.Contains(e.Reason, "Unschedulable: 0/")
	})
	c.must(t, c.kubelet.Cordon(t.Context(), c.node, false))
	c.running(t, p, "scaled-1")
}

func stoppedPod(t *testing.T, c *cluster) {
	p := c.open(t, "ours", func(cfg *kubernetes.Config) { cfg.Grace = cfg.Grace * 5 })
	c.start(t, p, "scaled-1")
	c.must(t, p.Stop(t.Context(), "scaled-1"))
	pod := c.pod(t, "ours", "scaled-1")
	if pod == nil || pod.DeletionTimestamp == nil {
		t.Fatalf("its pod is not ending: %+v", pod)
	}
	for _, process := range []provider.Provider{p, c.open(t, "ours")} {
		if all, err := process.List(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("listed: %+v, %v", all, err)
		}
	}
	c.must(t, p.Start(t.Context(), "scaled-1")) // waits until the first pod is gone
	if again := c.pod(t, "ours", "scaled-1"); again == nil || again.UID == pod.UID {
		t.Error("the engine's second pod is the first one")
	}
	c.running(t, p, "scaled-1")
}

func spotNotice(t *testing.T, c *cluster) {
	c.start(t, c.open(t, "ours"), "scaled-1")
	began := time.Now()
	c.must(t, c.kubelet.Taint(t.Context(), c.node,
		core.Taint{Key: "aws-node-termination-handler/spot-itn", Value: "event", Effect: core.TaintEffectNoSchedule}))
	p := c.open(t, "ours") // one that has not read the node a moment ago
	e := c.await(t, p, "scaled-1", "announced to leave", func(e provider.Instance) bool { return !e.LeavesAt.IsZero() })
	left := e.LeavesAt.Sub(began)
	if e.State != enginestate.EngineRunning || left < 100*time.Second || left > 180*time.Second {
		t.Errorf("it leaves %s after the notice, want about 2 minutes: %+v", left, e)
	}
	if !strings.Contains(e.Reason, c.node) || !strings.Contains(e.Reason, "spot-itn") {
		t.Errorf("reason %q", e.Reason)
	}
	again := c.await(t, p, "scaled-1", "there", func(e provider.Instance) bool { return e.ID != "" })
	if !again.LeavesAt.Equal(e.LeavesAt) {
		t.Errorf("the time moved from %s to %s", e.LeavesAt, again.LeavesAt)
	}
	c.must(t, c.kubelet.Taint(t.Context(), c.node))
	c.await(t, c.open(t, "ours"), "scaled-1", "to stay", func(e provider.Instance) bool { return e.LeavesAt.IsZero() })
}

func goneNode(t *testing.T, c *cluster) {
	p := c.open(t, "ours")
	c.start(t, p, "scaled-1")
	c.must(t, c.kubelet.RemoveNode(t.Context(), c.node))
	e := c.await(t, c.open(t, "ours"), "scaled-1", "failed", func(e provider.Instance) bool {
		return e.State == enginestate.EngineFailed
	})
	if e.Reason == "" || e.URL != "" {
		t.Errorf("listed as %+v", e)
	}
	c.addNode(t, c.node+"-b")
	c.start(t, p, "scaled-2")
}

func stoppedWhileEvicted(t *testing.T, c *cluster) {
	p := c.open(t, "ours")
	c.start(t, p, "scaled-1")
	c.must(t, c.kubelet.Evict(t.Context(), c.pod(t, "ours", "scaled-1")))
	c.announcedFor(t, p, time.Now())
	c.must(t, p.Stop(t.Context(), "scaled-1"))
	c.gone(t, p, "scaled-1")
	if pod := c.pod(t, "ours", "scaled-1"); pod != nil && time.Until(pod.DeletionTimestamp.Time) > 30*time.Second {
		t.Errorf("its pod has until %s", pod.DeletionTimestamp)
	}
}
