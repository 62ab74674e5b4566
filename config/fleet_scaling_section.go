package config

import (
	"cmp"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/kit/settings/document"
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

// providerKeys is the rows of the providers' sections.
func providerKeys() []settings.Key {
	return slices.Concat(below("scaling."+ProviderKubernetes, kubernetes.Keys),
		below("scaling."+ProviderProcess, process.Keys), below("scaling."+ProviderExec, exec.Keys))
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
