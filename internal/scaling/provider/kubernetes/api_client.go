package kubernetes

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace/internal/scaling/provider/kubernetes/coreclient"
)

// Requests a second that this process may make, and at once. A fleet of 256 engines that is started in one window stays
// below what an API server grants one user in its default flow control.
const (
	requestsPerSecond = 50
	requestsAtOnce    = 100
)

// apiClient makes the few requests of which the rules in rules.yaml are made up.
type apiClient struct {
	*coreclient.Client
	namespace string
}

// podsOfPage bounds one answer of the API server.
const podsOfPage = 250

// connect finds the API server: the kubeconfig's, or that of the cluster in which this process is a pod.
func connect(cfg Config) (*apiClient, error) {
	settings, namespace, err := clientSettings(cfg)
	if err != nil {
		return nil, err
	}
	settings.Timeout = cfg.Timeout.Std()
	settings.QPS, settings.Burst = requestsPerSecond, requestsAtOnce
	settings.UserAgent = "millrace"
	client, err := coreclient.New(settings)
	if err != nil {
		return nil, err
	}
	return &apiClient{Client: client, namespace: namespace}, nil
}

// clientSettings are the address and credentials, and the namespace that is meant where none is configured.
func clientSettings(cfg Config) (*rest.Config, string, error) {
	if cfg.Kubeconfig == "" && cfg.Context == "" {
		if settings, err := rest.InClusterConfig(); err == nil {
			return settings, cmp.Or(cfg.Namespace, ownNamespace()), nil
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = cfg.Kubeconfig
	file := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: cfg.Context})
	settings, err := file.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("kubernetes: this process is not a pod with a service account, and no kubeconfig "+
			"names an API server: set kubernetes.kubeconfig, or KUBECONFIG: %w", err)
	}
	if cfg.Namespace != "" {
		return settings, cfg.Namespace, nil
	}
	namespace, _, err := file.Namespace()
	return settings, namespace, err
}

// ownNamespace is that of the pod that this process is.
func ownNamespace() string {
	name, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return "default"
	}
	return strings.TrimSpace(string(name))
}

func (c *apiClient) createPod(ctx context.Context, pod *core.Pod) error {
	return c.Post().Namespace(c.namespace).Resource("pods").Body(pod).Do(ctx).Error()
}

func (c *apiClient) pod(ctx context.Context, name string) (*core.Pod, error) {
	var pod core.Pod
	err := c.Get().Namespace(c.namespace).Resource("pods").Name(name).Do(ctx).Into(&pod)
	return &pod, err
}

// pods are all that have a label, read in pages. The list that changed too much between two of its pages is read again
// from its start.
func (c *apiClient) pods(ctx context.Context, selector string) ([]core.Pod, error) {
	for restarts := 0; ; restarts++ {
		all, err := c.pagesOfPods(ctx, selector)
		if !apierrors.IsResourceExpired(err) || restarts == 3 {
			return all, err
		}
	}
}

func (c *apiClient) pagesOfPods(ctx context.Context, selector string) (all []core.Pod, err error) {
	for next := ""; ; {
		var page core.PodList
		err := c.Get().Namespace(c.namespace).Resource("pods").
			VersionedParams(&meta.ListOptions{LabelSelector: selector, Limit: podsOfPage, Continue: next}, c.Params).
			Do(ctx).Into(&page)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if next = page.Continue; next == "" {
			return all, nil
		}
	}
}

// annotatePod sets an annotation of exactly this pod, not of a later one with its name.
func (c *apiClient) annotatePod(ctx context.Context, pod *core.Pod, key, value string) error {
	change, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]string{key: value},
	}})
	if err != nil {
		return err
	}
	return c.Patch(types.MergePatchType).Namespace(c.namespace).Resource("pods").Name(pod.Name).Body(change).
		Do(ctx).Error()
}

// deletePod deletes exactly this pod; its containers have the grace to end by themselves.
func (c *apiClient) deletePod(ctx context.Context, pod *core.Pod, grace time.Duration) error {
	seconds := int64((grace + time.Second - 1) / time.Second)
	return c.Delete().Namespace(c.namespace).Resource("pods").Name(pod.Name).
		Body(&meta.DeleteOptions{GracePeriodSeconds: &seconds, Preconditions: &meta.Preconditions{UID: &pod.UID}}).
		Do(ctx).Error()
}

// node comes from the API server's cache, unless it is not there: a cache may be behind.
func (c *apiClient) node(ctx context.Context, name string) (*core.Node, error) {
	node, err := c.nodeAt(ctx, name, "0")
	if apierrors.IsNotFound(err) {
		return c.nodeAt(ctx, name, "")
	}
	return node, err
}

func (c *apiClient) nodeAt(ctx context.Context, name, version string) (*core.Node, error) {
	var node core.Node
	err := c.Get().Resource("nodes").Name(name).
		VersionedParams(&meta.GetOptions{ResourceVersion: version}, c.Params).Do(ctx).Into(&node)
	return &node, err
}
