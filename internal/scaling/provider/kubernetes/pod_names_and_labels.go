package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/scaling/provider"
)

// The labels and annotations of our pods. The deployment's label makes a pod ours; the engine's id is an annotation,
// since not every id is a valid label.
const (
	labelManagedBy  = "app.kubernetes.io/managed-by"
	labelComponent  = "app.kubernetes.io/component"
	labelDeployment = "millrace.dev/deployment"
	labelEngine     = "millrace.dev/engine"

	annotationDeployment = "millrace.dev/deployment-name"
	annotationEngine     = "millrace.dev/engine-id"
	annotationStopped    = "millrace.dev/stopped"

	ownDomain = "millrace.dev/"
)

// EngineIDVariable is in the environment of every container of an engine's pod.
const EngineIDVariable = "MILLRACE_ENGINE_ID"

// podName is a function of deployment and engine, and different for each. It is no longer than a host name, which the
// pod gets from it.
func podName(deployment string, id rollout.EngineID) string {
	const longest = 63
	hash := sha256.Sum256([]byte(deployment + "\x00" + string(id)))
	suffix := "-" + hex.EncodeToString(hash[:5])
	readable := "millrace-" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(deployment+"-"+string(id)))
	return strings.TrimRight(readable[:min(len(readable), longest-len(suffix))], "-") + suffix
}

// labelValue is the text itself where it may be a label's value, and otherwise one that no other text has.
func labelValue(text string) string {
	if isLabelValue(text) {
		return text
	}
	hash := sha256.Sum256([]byte(text))
	return "sha256-" + hex.EncodeToString(hash[:16])
}

// ours selects the pods of a deployment.
func ours(deployment string) string { return labelDeployment + "=" + labelValue(deployment) }

// isOurs reports whether a pod was made by a deployment for an engine. An empty id is any engine.
func isOurs(pod *podObject, deployment string, id rollout.EngineID) bool {
	return pod.Labels[labelDeployment] == labelValue(deployment) &&
		pod.Annotations[annotationDeployment] == deployment &&
		pod.Annotations[annotationEngine] != "" && (id == "" || pod.Annotations[annotationEngine] == string(id))
}

// What Kubernetes takes as the name of a namespace, and as the key of a taint.
var (
	labelPattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	keyPattern   = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?` +
		`[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
)

// isLabelValue: such are the names of deployments, too.
func isLabelValue(text string) bool { return provider.IsDeploymentName(text) }
