package kubernetes

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/rollout"
)

// Config is scaling.kubernetes of the service's configuration. What each key means stands in Keys.
type Config struct {
	Template    string           `json:"template"`
	Namespace   string           `json:"namespace,omitempty"`
	Kubeconfig  string           `json:"kubeconfig,omitempty"`
	Context     string           `json:"context,omitempty"`
	Deployment  string           `json:"deployment,omitempty"`
	Port        int              `json:"port,omitempty"`
	Scheme      string           `json:"scheme,omitempty"`
	MaxInFlight int              `json:"max_in_flight,omitempty"`
	Grace       rollout.Duration `json:"grace,omitempty"`
	Timeout     rollout.Duration `json:"timeout,omitempty"`
	Notices     []Notice         `json:"notices,omitempty"`
	IgnoreNodes bool             `json:"ignore_nodes,omitempty"`
}

// Notice is a taint by which nodes are announced to go, and how long after it the machine goes.
type Notice struct {
	Taint string           `json:"taint"`
	Lead  rollout.Duration `json:"lead"`
}

// Keys is a row for every key of a Config. Rules that need more than one value are those of Faults.
var Keys = settings.Table{Keys: []settings.Key{
	{Path: "template", Required: true, Example: "/etc/millrace/engine-pod.yaml",
		Doc: "an absolute path: a manifest of kind Pod, YAML or JSON, that every engine's pod is made from; read again for " +
			"each new pod"},
	{Path: "namespace", Example: "rollouts",
		Doc: "where the pods are; empty: this process's own in a cluster, or that of the kubeconfig's context"},
	{Path: "kubeconfig",
		Doc: "an absolute path: an API server and credentials; empty: the service account of the pod that this process is, " +
			"or what KUBECONFIG names"},
	{Path: "context", Doc: "one of the kubeconfig's contexts; empty: its current one"},
	{Path: "deployment", Example: "rl-team-a",
		Doc: "tells this deployment's pods from those of others in the namespace; empty: a name made of redis.prefix and " +
			"of the Redis, so that pods are others' once the service has moved to another Redis"},
	{Path: "port", Default: 8000, Min: settings.Bound(1), Max: settings.Bound(65535),
		Doc: "where the engine listens in its pod"},
	{Path: "scheme", Default: "http", OneOf: []string{"http", "https"}, Doc: "how the engine is spoken to"},
	{Path: "max_in_flight", Min: settings.Bound(0), Max: settings.Bound(100_000),
		Doc: "requests that an engine may have at once; 0: the fleet's default"},
	{Path: "grace", Default: 10 * time.Second, Min: settings.Bound(0), Max: settings.Bound(3600),
		Doc: "how long a pod may take to end when Millrace deletes it, which it does once the engine is drained"},
	{Path: "timeout", Default: 10 * time.Second, Above: settings.Bound(0), Max: settings.Bound(300),
		Doc: "bounds every request to the API server"},
	{Path: "notices",
		Doc: "taints by which nodes are announced to go, beside those of the usual clouds (docs/kubernetes.md)"},
	{Path: "notices.taint", Required: true, Example: "example.com/reclaimed", Doc: "the taint's key"},
	{Path: "notices.lead", Min: settings.Bound(0), Max: settings.Bound(24 * 3600), Example: "45s",
		Doc: "from the taint to the end of the machine; 0s for one of the usual taints: it is no notice"},
	{Path: "ignore_nodes",
		Doc: "leaves nodes unread, which needs a right on the cluster: engines then learn only from their pod that their " +
			"machine goes"},
}}

// Unset is a Config before anybody has said anything: the keys' defaults.
func Unset() Config {
	var c Config
	for _, key := range Keys.Keys {
		if key.Default != nil {
			key.SetDefault(&c)
		}
	}
	return c
}

// Faults are all that is wrong with it. Files are read by New.
func (c Config) Faults() settings.Faults {
	faults := Keys.Check(&c, settings.Reading{})
	for _, file := range []struct{ key, path string }{{"template", c.Template}, {"kubeconfig", c.Kubeconfig}} {
		if file.path != "" && !filepath.IsAbs(file.path) {
			faults.Add(file.key, "%q is not an absolute path", file.path)
		}
	}
	if c.Namespace != "" && !labelPattern.MatchString(c.Namespace) {
		faults.Add("namespace", "%q is not a namespace's name", c.Namespace)
	}
	if c.Deployment != "" && !isLabelValue(c.Deployment) {
		faults.Add("deployment", "%q: use up to 63 of letters, digits, '.', '_' and '-', starting and ending with a letter "+
			"or digit", c.Deployment)
	}
	named := map[string]bool{}
	for i, n := range c.Notices {
		at := fmt.Sprintf("notices[%d].taint", i)
		switch {
		case n.Taint != "" && !keyPattern.MatchString(n.Taint):
			faults.Add(at, "%q is not the key of a taint", n.Taint)
		case named[n.Taint]:
			faults.Add(at, "%s is named twice", n.Taint)
		}
		named[n.Taint] = true
	}
	return faults
}

// Validate is Faults as an error.
func (c Config) Validate() error { return c.Faults().Err() }

// withDefaults is c with the keys' defaults where it says nothing.
func (c Config) withDefaults(deployment string) Config {
	standard := Unset()
	if c.Deployment == "" {
		c.Deployment = deployment
	}
	if c.Port == 0 {
		c.Port = standard.Port
	}
	if c.Scheme == "" {
		c.Scheme = standard.Scheme
	}
	if c.Grace == 0 {
		c.Grace = standard.Grace
	}
	if c.Timeout == 0 {
		c.Timeout = standard.Timeout
	}
	return c
}
