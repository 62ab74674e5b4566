package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"golang.org/x/time/rate"
)

// Requests a second that this process may make, and at once. A fleet of 256 engines that is started in one window stays
// below what an API server grants one user in its default flow control.
const (
	requestsPerSecond = 50
	requestsAtOnce    = 100
)

// apiClient makes the few requests that rules.yaml permits.
type apiClient struct {
	server      string // its URL
	namespace   string
	timeout     time.Duration // of each request
	http        *http.Client
	credentials credentials
	limit       *rate.Limiter
}

// podsOfPage bounds one answer of the API server.
const podsOfPage = 250

// connect finds the API server: the kubeconfig's, or that of the cluster in which this process is a pod.
func connect(cfg Config) (*apiClient, error) {
	server, user, namespace, err := findServer(cfg)
	if err != nil {
		return nil, err
	}
	c := &apiClient{server: server.Server, namespace: namespace, timeout: cfg.Timeout.Std(),
		credentials: credentials{user: user, server: &server}, limit: rate.NewLimiter(requestsPerSecond, requestsAtOnce)}
	transport, err := server.transport(&c.credentials)
	if err != nil {
		return nil, err
	}
	c.http = &http.Client{Transport: transport}
	return c, nil
}

// call makes one request with what is sent as JSON, and reads the answer into answer, unless they are nil.
func (c *apiClient) call(ctx context.Context, method, path string, sent, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if err := c.limit.Wait(ctx); err != nil {
		return err
	}
	request, err := newRequest(ctx, method, c.server+path, sent)
	if err != nil {
		return err
	}
	if err := c.credentials.authorize(request); err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if response.StatusCode == http.StatusUnauthorized {
		c.credentials.forget()
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return readRefusal(response.StatusCode, text)
	}
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(text, answer)
}

func newRequest(ctx context.Context, method, url string, sent any) (*http.Request, error) {
	var body io.Reader
	if sent != nil {
		text, err := json.Marshal(sent)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "millrace")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	return request, nil
}

// podsPath is the path of a pod, or of all pods of the namespace where it has no name.
func (c *apiClient) podsPath(name string) string {
	path := "/api/v1/namespaces/" + url.PathEscape(c.namespace) + "/pods"
	if name != "" {
		path += "/" + url.PathEscape(name)
	}
	return path
}

// createPod has the API server refuse keys that it does not know.
func (c *apiClient) createPod(ctx context.Context, manifest map[string]any) error {
	return c.call(ctx, http.MethodPost, c.podsPath("")+"?fieldValidation=Strict", manifest, nil)
}

func (c *apiClient) pod(ctx context.Context, name string) (*podObject, error) {
	var there podObject
	return &there, c.call(ctx, http.MethodGet, c.podsPath(name), nil, &there)
}

// pods are all that have a label, read in pages. The list that changed too much between two of its pages is read again
// from its start.
func (c *apiClient) pods(ctx context.Context, selector string) ([]podObject, error) {
	for restarts := 0; ; restarts++ {
		all, err := c.pagesOfPods(ctx, selector)
		if reasonOf(err) != "Expired" || restarts == 3 {
			return all, err
		}
	}
}

func (c *apiClient) pagesOfPods(ctx context.Context, selector string) (all []podObject, err error) {
	query := url.Values{"labelSelector": {selector}, "limit": {strconv.Itoa(podsOfPage)}}
	for {
		var page podList
		if err := c.call(ctx, http.MethodGet, c.podsPath("")+"?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Metadata.Continue == "" {
			return all, nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
}

// annotatePod sets an annotation of exactly this pod, not of a later one with its name.
func (c *apiClient) annotatePod(ctx context.Context, pod *podObject, key, value string) error {
	return c.call(ctx, http.MethodPatch, c.podsPath(pod.Name), map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]string{key: value},
	}}, nil)
}

// deletePod deletes exactly this pod; its containers have the grace to end by themselves.
func (c *apiClient) deletePod(ctx context.Context, pod *podObject, grace time.Duration) error {
	return c.call(ctx, http.MethodDelete, c.podsPath(pod.Name), map[string]any{
		"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": map[string]any{"uid": pod.UID},
		"gracePeriodSeconds": int64((grace + time.Second - 1) / time.Second),
	}, nil)
}

// node comes from the API server's cache, unless it is not there: a cache may be behind.
func (c *apiClient) node(ctx context.Context, name string) (*nodeObject, error) {
	var there nodeObject
	path := "/api/v1/nodes/" + url.PathEscape(name)
	err := c.call(ctx, http.MethodGet, path+"?resourceVersion=0", nil, &there)
	if reasonOf(err) == "NotFound" {
		err = c.call(ctx, http.MethodGet, path, nil, &there)
	}
	return &there, err
}
