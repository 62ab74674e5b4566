package config

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/kit/settings/document"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/scaling/provider"
	"github.com/millrace/millrace/internal/scaling/provider/exec"
	"github.com/millrace/millrace/internal/scaling/provider/kubernetes"
	"github.com/millrace/millrace/internal/scaling/provider/process"
	"github.com/millrace/millrace/worker/workerconfig"
)

// Scaling is how the service scales its fleet. Without it the fleet is what operators and lists make it.
type Scaling struct {
	workerconfig.Scaling
	// Deployment is the name by which providers know this deployment's engines; empty: one made of the Redis and its
	// prefix. A provider's own section may have another one.
	Deployment string `json:"deployment,omitempty"`

	Kubernetes *kubernetes.Config `json:"kubernetes,omitempty"`
	Process    *process.Config    `json:"process,omitempty"`
	Exec       *exec.Config       `json:"exec,omitempty"`
}

// DeploymentName is the name by which the provider knows this deployment's engines, if anybody has given it one.
func (s *Scaling) DeploymentName() string {
	own := ""
	switch {
	case s.Provider == ProviderKubernetes && s.Kubernetes != nil:
		own = s.Kubernetes.Deployment
	case s.Provider == ProviderExec && s.Exec != nil:
		own = s.Exec.Deployment
	}
	return cmp.Or(own, s.Deployment)
}

// The providers. Advise only says how many engines are wanted; others see to it.
const (
	ProviderAdvise     = "advise"
	ProviderKubernetes = "kubernetes"
	ProviderProcess    = "process"
	ProviderExec       = "exec"
)

// scalingProviders are the providers, as the section names them.
var scalingProviders = []string{ProviderAdvise, ProviderProcess, ProviderExec, ProviderKubernetes}

const defaultWindow = 10 * time.Second

// scalingRows are the keys of the section.
func scalingRows() []settings.Key {
	rows := []settings.Key{
		{Path: "scaling", Doc: "the service decides how many engines there are, and gets them (docs/scaling.md); the fleet " +
			"is what operators and lists make it, if not given"},
		{Path: "scaling.provider", Required: true, OneOf: scalingProviders,
			Doc: "what gets engines and gives them back (docs/providers.md); advise gets none: others go by the number that " +
				"is wanted"},
		{Path: "scaling.deployment", Example: "rl-team-a",
			Doc: "the name by which providers know this deployment's engines, and tell them from others'. If not given, it " +
				"is made of redis.url and redis.prefix: engines are not known any more when these change, nor to workers " +
				"that reach the same Redis by another address"},
		{Path: "scaling.window", Default: rollout.Duration(defaultWindow), Min: limit(0.1), Max: limit(600), Live: true,
			Doc: "how often is decided"},
	}
	rows = append(rows, below("scaling", liveScalingKeys())...)
	rows = append(rows, settings.Key{Path: "scaling.kubernetes",
		Doc: "engines that are pods, one for each (docs/kubernetes.md); of provider kubernetes"})
	rows = append(rows, below("scaling.kubernetes", kubernetes.Keys)...)
	rows = append(rows, settings.Key{Path: "scaling.process",
		Doc: "engines that are processes of the worker's host (docs/providers.md); of provider process"})
	rows = append(rows, below("scaling.process", process.Keys)...)
	rows = append(rows, settings.Key{Path: "scaling.exec",
		Doc: "engines that your own commands start, stop and list (docs/providers.md); of provider exec"})
	return append(rows, below("scaling.exec", exec.Keys)...)
}

// liveScalingKeys is what scaling goes by: workers take it up while they run, and nothing of how engines are got.
func liveScalingKeys() settings.Table {
	table := settings.Table{Keys: slices.Clone(scaling.Keys.Keys)}
	for i := range table.Keys {
		key := &table.Keys[i]
		key.Live = key.Of(&scaling.Config{}).Kind() != reflect.Struct // its keys are
	}
	return table
}

// below is the rows of a table as those of a section.
func below(section string, table settings.Table) []settings.Key {
	rows := slices.Clone(table.Keys)
	for i := range rows {
		rows[i].Path = settings.Join(section, rows[i].Path)
	}
	return rows
}

// checkScaling is the rules that concern several keys of the section.
func checkScaling(d *document.Document, s *Scaling) {
	if s == nil {
		return
	}
	for _, f := range s.Config.Faults() {
		d.FaultOnce("scaling."+f.Path, "%s", f.Text)
	}
	if !provider.IsDeploymentName(s.Deployment) && s.Deployment != "" {
		d.Fault("scaling.deployment", "%q: use up to 63 of letters, digits, '.', '_' and '-', starting and ending with a "+
			"letter or digit", s.Deployment)
	}
	checkSection(d, ProviderKubernetes, s.Provider, s.Kubernetes != nil, func() error { return s.Kubernetes.Validate() })
	checkSection(d, ProviderExec, s.Provider, s.Exec != nil, func() error { return s.Exec.Validate() })
	checkSection(d, ProviderProcess, s.Provider, s.Process != nil, func() error { return s.Process.Validate() })
}

// checkSection reports the faults of a provider's section: "key: text" each. A section that the provider in use needs
// must be there.
func checkSection(d *document.Document, of, used string, given bool, validate func() error) {
	at := "scaling." + of
	switch {
	case !given && of == used:
		d.Fault("scaling.provider", "%s needs a section %s", of, at)
	case given:
		for _, err := range settings.Each(validate()) {
			key, text, _ := strings.Cut(err.Error(), ": ")
			key, _, _ = strings.Cut(key, ",")
			d.FaultOnce(settings.Join(at, key), "%s", cmp.Or(text, key))
		}
	}
}
