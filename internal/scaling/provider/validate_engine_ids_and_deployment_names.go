package provider

import (
	"fmt"
	"regexp"

	"github.com/millrace/millrace/internal/rollout"
)

// idPattern is narrower than the fleet's, so that an id may be part of a file's name, a job's and a pod's.
var idPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?$`)

// ValidateID refuses what cannot be an engine's id where engines are bought.
func ValidateID(id rollout.EngineID) error {
	if !idPattern.MatchString(string(id)) {
		return fmt.Errorf("engine id %q: use up to 100 of letters, digits, '.', '_' and '-', starting and ending with a "+
			"letter or digit", string(id))
	}
	return nil
}

// namePattern fits labels of Kubernetes and of clouds, and the names of jobs and folders.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

// IsDeploymentName reports whether a deployment's engines may be known by a name.
func IsDeploymentName(name string) bool { return namePattern.MatchString(name) }
