package kubernetes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// refusal is an answer of the API server that says no: a Status of its API.
type refusal struct {
	Message, Reason string
	Details         struct{ Causes []struct{ Reason string } }
}

func (r *refusal) Error() string { return r.Message }

// reasons is the meaning of an answer that has only a status, such as a proxy's.
var reasons = map[int]string{
	http.StatusBadRequest: "BadRequest", http.StatusUnauthorized: "Unauthorized", http.StatusForbidden: "Forbidden",
	http.StatusNotFound: "NotFound", http.StatusConflict: "Conflict", http.StatusGone: "Expired",
	http.StatusUnprocessableEntity: "Invalid", http.StatusTooManyRequests: "TooManyRequests",
}

func readRefusal(code int, body []byte) error {
	var r refusal
	if json.Unmarshal(body, &r) != nil || r.Message == "" {
		r.Message = sentence(fmt.Sprintf("%d %s", code, http.StatusText(code)), "", string(body))
	}
	r.Reason = cmp.Or(r.Reason, reasons[code], "InternalError")
	return &r
}

// reasonOf is the API server's reason for a refusal; empty: the error is another one, or nil.
func reasonOf(err error) string {
	var r *refusal
	if errors.As(err, &r) {
		return r.Reason
	}
	return ""
}

// explain adds what was being done and, where it helps, how to fix the failure.
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
	if errors.Is(err, context.Canceled) || errors.Is(err, errCredentials) {
		return ""
	}
	var r *refusal
	if !errors.As(err, &r) {
		return "the API server does not answer; engines that run are not affected"
	}
	switch r.Reason {
	case "Forbidden":
		return r.adviceIfForbidden()
	case "Unauthorized":
		return "the API server does not know the credentials: check the service account or the kubeconfig"
	case "Invalid", "BadRequest":
		return "change the pod template"
	case "NotFound":
		return "create the namespace"
	case "TooManyRequests", "ServerTimeout", "InternalError", "ServiceUnavailable", "Timeout":
		return "the API server is overloaded or starting; it is asked again"
	}
	return ""
}

func (r *refusal) adviceIfForbidden() string {
	terminates := func(cause struct{ Reason string }) bool { return cause.Reason == "NamespaceTerminating" }
	switch {
	case strings.Contains(r.Message, "exceeded quota"):
		return "the namespace's ResourceQuota is used up: raise it, or lower scaling's max"
	case slices.ContainsFunc(r.Details.Causes, terminates):
		return "somebody deletes the namespace: create it again, or set kubernetes.namespace to another one"
	case strings.Contains(r.Message, "PodSecurity"):
		return "the namespace's pod security level forbids the pod template: change one of them"
	case !strings.Contains(r.Message, " cannot "): // so RBAC words it
		return "a policy of the cluster forbids such a pod: change the pod template or the policy"
	}
	return "give the service account the rights of docs/kubernetes.md"
}
