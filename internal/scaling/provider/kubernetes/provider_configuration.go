package kubernetes

import (
	"cmp"
	_ "embed"
	"fmt"
	"path/filepath"

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
var Keys = settings.ReadTable(keysFile)

//go:embed kubernetes_keys.json
var keysFile []byte

// Unset is a Config before anybody has said anything: the keys' defaults.
func Unset() Config {
	var c Config
	Keys.SetDefaults(&c)
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
	c.Deployment = cmp.Or(c.Deployment, deployment)
	c.Port = cmp.Or(c.Port, standard.Port)
	c.Scheme = cmp.Or(c.Scheme, standard.Scheme)
	c.Grace = cmp.Or(c.Grace, standard.Grace)
	c.Timeout = cmp.Or(c.Timeout, standard.Timeout)
	return c
}
