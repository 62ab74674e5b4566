package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// explain says what was being done and, where somebody can do something about the failure, what.
func explain(err error, doing string, args ...any) error {
	if err == nil {
		return nil
	}
	doing = "kubernetes: " + fmt.Sprintf(doing, args...)
	advice := advice(err)
	var call *url.Error
	if errors.As(err, &call) { // its text is the whole URL of the request
		host := "the API server"
		if at, parsed := url.Parse(call.URL); parsed == nil {
			host = at.Host
		}
		err = fmt.Errorf("%s: %w", host, call.Err)
	}
	if advice != "" {
		return fmt.Errorf("%s: %w (%s)", doing, err, advice)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

func advice(err error) string {
	switch {
	case errors.Is(err, context.Canceled):
		return ""
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return "the namespace's ResourceQuota is used up: raise it, or lower scaling's max"
	case apierrors.HasStatusCause(err, core.NamespaceTerminatingCause):
		return "somebody deletes the namespace: create it again, or set kubernetes.namespace to another one"
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "PodSecurity"):
		return "the namespace's pod security level forbids the pod template: change one of them"
	case apierrors.IsForbidden(err) && !strings.Contains(err.Error(), " cannot "): // so RBAC words it
		return "a policy of the cluster forbids such a pod: change the pod template or the policy"
	case apierrors.IsForbidden(err):
		return "give the service account the rights of docs/kubernetes.md"
	case apierrors.IsUnauthorized(err):
		return "the API server does not know the credentials: check the service account or the kubeconfig"
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return "change the pod template"
	case apierrors.IsNotFound(err):
		return "create the namespace"
	case apierrors.IsTooManyRequests(err), apierrors.IsServerTimeout(err), apierrors.IsInternalError(err),
		apierrors.IsServiceUnavailable(err), apierrors.IsTimeout(err):
		return "the API server is overloaded or starting; it is asked again"
	case apierrors.ReasonForError(err) == "":
		return "the API server does not answer; engines that run are not affected"
	}
	return ""
}
