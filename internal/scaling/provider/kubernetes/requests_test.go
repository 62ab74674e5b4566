package kubernetes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/scaling/provider/kubernetes"
	"github.com/millrace/millrace/internal/scaling/provider/kubernetes/fakeapi"
)

// TestRightsAreThoseThatAreUsed: the chart's rules have no right that the provider does not use. That it needs no other
// one, TestRealAPIServer shows.
func TestRightsAreThoseThatAreUsed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 0)
	p := c.open(t, "ours")
	c.start(t, p, "scaled-1")
	c.must(t, p.Start(t.Context(), "scaled-1"))
	c.must(t, p.Stop(t.Context(), "scaled-1"))
	used := map[string]bool{}
	for _, r := range c.api.Requests() {
		if r.Agent == "millrace" {
			used[r.Verb+" "+r.Resource] = true
		}
	}
	rules, err := readRules(rulesFile)
	c.must(t, err)
	granted := map[string]bool{}
	for _, rule := range slices.Concat(rules.Role, rules.ClusterRole) {
		for _, verb := range rule.Verbs {
			granted[verb+" "+rule.Resources[0]] = true
		}
	}
	if fmt.Sprint(used) != fmt.Sprint(granted) {
		t.Errorf("used %v, granted %v", used, granted)
	}
}

// TestLongListsAreReadInPages, and from the start again where a page is no longer to be had.
func TestLongListsAreReadInPages(t *testing.T) {
	t.Parallel()
	api := fakeapi.New(t)
	c := &cluster{api: api, name: "rollouts", kubeconfig: writeKubeconfig(t, api.Settings())}
	const many = 600
	for i := range many {
		id := fmt.Sprintf("scaled-%03d", i)
		api.Add(core.Pod{ObjectMeta: meta.ObjectMeta{
			Name: id, Namespace: c.name, Labels: map[string]string{"millrace.dev/deployment": "ours"},
			Annotations: map[string]string{"millrace.dev/deployment-name": "ours", "millrace.dev/engine-id": id},
		}})
	}
	var expired atomic.Bool
	api.Fault(func(r fakeapi.Request) *apierrors.StatusError {
		if r.Continue != "" && expired.CompareAndSwap(false, true) {
			return apierrors.NewResourceExpired("the provided continue parameter is too old")
		}
		return nil
	})
	all, err := c.open(t, "ours").List(t.Context())
	if err != nil || len(all) != many {
		t.Fatalf("listed %d, %v", len(all), err)
	}
	if pages := len(api.Requests()); pages != 5 { // 1, an expired one, 3
		t.Errorf("%d requests", pages)
	}
}

// TestPodsOfOthersAreLeftAlone, those with our label or our name included.
func TestPodsOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 0)
	p := c.open(t, "ours")
	c.start(t, p, "scaled-1")
	name := c.pod(t, "ours", "scaled-1").Name
	for _, tt := range []struct {
		what   string
		change func(*core.Pod)
	}{
		{"it has the name, and no label", func(pod *core.Pod) { pod.Labels = nil }},
		{"it has the label, and is nobody's engine", func(pod *core.Pod) {
			pod.Labels = map[string]string{"millrace.dev/deployment": "ours"}
			pod.Annotations = nil
		}},
		{"another deployment made it", func(pod *core.Pod) {
			pod.Labels = map[string]string{"millrace.dev/deployment": "theirs"}
			pod.Annotations = map[string]string{
				"millrace.dev/deployment-name": "theirs", "millrace.dev/engine-id": "scaled-1",
			}
		}},
	} {
		c.api.Pod(c.name, name, tt.change)
		before := len(c.api.Requests())
		for call, err := range map[string]error{
			"start": p.Start(t.Context(), "scaled-1"), "stop": p.Stop(t.Context(), "scaled-1"),
		} {
			if err == nil || !strings.Contains(err.Error(), "it is left as it is") {
				t.Errorf("%s: %s: %v", tt.what, call, err)
			}
		}
		if all, err := p.List(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("%s: listed %+v, %v", tt.what, all, err)
		}
		for _, r := range c.api.Requests()[before:] {
			if r.Agent == "millrace" && (r.Verb == "patch" || r.Verb == "delete") {
				t.Errorf("%s: asked for %s %s", tt.what, r.Verb, r.Resource)
			}
		}
	}
}

// TestInterruptedStop: whoever stopped an engine ended between its two requests. The engine is listed, and stopped by
// the next who is told to; or it is started again, once the first pod is gone.
func TestInterruptedStop(t *testing.T) {
	t.Parallel()
	for _, next := range []string{"stop", "start"} {
		c := newCluster(t, 0)
		p := c.open(t, "ours")
		c.start(t, p, "scaled-1")
		pod := c.pod(t, "ours", "scaled-1")
		c.api.Pod(c.name, pod.Name, func(pod *core.Pod) { pod.Annotations["millrace.dev/stopped"] = "true" })
		c.running(t, p, "scaled-1")
		if next == "stop" {
			c.must(t, p.Stop(t.Context(), "scaled-1"))
			c.gone(t, p, "scaled-1")
			continue
		}
		c.start(t, p, "scaled-1")
		if again := c.pod(t, "ours", "scaled-1"); again == nil || again.UID == pod.UID {
			t.Error("the stopped pod is the engine still")
		}
	}
}

// TestNodesThatMayNotBeRead: engines are listed all the same, and the log says so once.
func TestNodesThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 0)
	c.api.Fault(func(r fakeapi.Request) *apierrors.StatusError {
		if r.Agent == "millrace" && r.Resource == "nodes" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, c.node, errors.New("no right"))
		}
		return nil
	})
	var log bytes.Buffer
	p, err := kubernetes.New(kubernetes.Config{
		Template: write(t, "pod.yaml", strings.ReplaceAll(template, "CLUSTER", c.name)), Kubeconfig: c.kubeconfig,
		Namespace: c.name,
	}, "ours", slog.New(slog.NewTextHandler(&log, nil)))
	c.must(t, err)
	c.start(t, p, "scaled-1")
	c.addNode(t, c.node+"-b")
	c.must(t, c.kubelet.Cordon(t.Context(), c.node, true))
	c.start(t, p, "scaled-2")
	if said := strings.Count(log.String(), "ignore_nodes"); said != 1 {
		t.Errorf("said %d times:\n%s", said, log.String())
	}
	ignoring := c.open(t, "ours", func(cfg *kubernetes.Config) { cfg.IgnoreNodes = true })
	before := len(c.api.Requests())
	c.running(t, ignoring, "scaled-2")
	for _, r := range c.api.Requests()[before:] {
		if r.Agent == "millrace" && r.Resource == "nodes" {
			t.Error("nodes are read, though they are to be ignored")
		}
	}
}

// TestFailuresSayWhatToDo has the answers of API servers that an operator can act on.
func TestFailuresSayWhatToDo(t *testing.T) {
	t.Parallel()
	forbidden := func(why string) *apierrors.StatusError {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New(why))
	}
	terminating := forbidden("unable to create new content in namespace x because it is being terminated")
	terminating.ErrStatus.Details.Causes = []meta.StatusCause{{Type: core.NamespaceTerminatingCause}}
	for _, tt := range []struct {
		name, says string
		err        *apierrors.StatusError
	}{
		{"a namespace that ends", "somebody deletes the namespace", terminating},
		{"quota", "ResourceQuota is used up", forbidden("exceeded quota: gpus")},
		{"pod security", "pod security level", forbidden(`violates PodSecurity "baseline:latest"`)},
		{"a policy", "change the pod template or the policy", forbidden("no GPUs here")},
		{"no right", "rights of docs/kubernetes.md", forbidden(`User "x" cannot create resource "pods"`)},
		{"a token that is over", "check the service account", apierrors.NewUnauthorized("Unauthorized")},
		{"a bad template", "change the pod template", apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "x", nil)},
		{"no namespace", "create the namespace", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "x")},
		{"overloaded", "it is asked again", apierrors.NewServiceUnavailable("etcd")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 0)
			c.api.Fault(func(r fakeapi.Request) *apierrors.StatusError {
				if r.Agent == "millrace" && r.Verb == "create" {
					return tt.err
				}
				return nil
			})
			err := c.open(t, "ours").Start(t.Context(), "scaled-1")
			if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), "engine scaled-1") {
				t.Errorf("%v; want it to say %q", err, tt.says)
			}
		})
	}
}

// TestUnknownKeyOfATemplate: the API server knows its version's keys, and its refusal names the key.
func TestUnknownKeyOfATemplate(t *testing.T) {
	t.Parallel()
	p := newCluster(t, 0).open(t, "ours", func(cfg *kubernetes.Config) {
		cfg.Template = write(t, "pod.yaml", "{spec: {containers: [{name: vllm, imagee: vllm}]}}")
	})
	err := p.Start(t.Context(), "scaled-1")
	if err == nil || !strings.Contains(err.Error(), `unknown field "imagee"`) ||
		!strings.Contains(err.Error(), "change the pod template") {
		t.Errorf("%v", err)
	}
}

// unavailable has an API server that does not answer, or is not there, until back is called.
func (c *cluster) unavailable(t *testing.T, outage time.Duration, back func()) {
	t.Helper()
	p := c.open(t, "ours", func(cfg *kubernetes.Config) { cfg.Timeout = cfg.Timeout / 5 })
	before, tries := time.Now(), 0
	for time.Since(before) < outage || tries == 0 {
		tries++
		for what, call := range map[string]func(context.Context) error{
			"start": func(ctx context.Context) error { return p.Start(ctx, "scaled-2") },
			"stop":  func(ctx context.Context) error { return p.Stop(ctx, "scaled-1") },
			"list":  func(ctx context.Context) error { _, err := p.List(ctx); return err },
		} {
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			if err := call(ctx); err == nil || strings.Contains(err.Error(), "?") {
				t.Errorf("%s: want an error without the request's parameters, got %v", what, err)
			}
			cancel()
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("%s took %s", what, took)
			}
		}
	}
	back()
	t.Logf("%d times each of start, stop and list, in %s", tries, time.Since(before).Round(time.Second))
}

// TestUnavailableAPIServer: engines run on, and what was asked for in vain is carried out when it is repeated.
func TestUnavailableAPIServer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 0)
	c.start(t, c.open(t, "ours"), "scaled-1")
	c.unavailable(t, 0, c.api.Hang())
	c.afterOutage(t)
}

// afterOutage: the same engine is there, or was stopped by a request whose answer was lost; each of the two orders is
// carried out once when it is repeated.
func (c *cluster) afterOutage(t *testing.T) {
	t.Helper()
	p := c.open(t, "ours")
	c.start(t, p, "scaled-2")
	c.must(t, p.Stop(t.Context(), "scaled-1"))
	c.gone(t, p, "scaled-1")
	if n := c.kubelet.Running(engine("ours", "scaled-2")); n != 1 {
		t.Errorf("%d pods of scaled-2 run", n)
	}
	c.must(t, p.Stop(t.Context(), "scaled-2"))
	c.gone(t, p, "scaled-2")
}
