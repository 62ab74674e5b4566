package kubernetes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/internal/scaling/provider/kubernetes/coreclient"
)

// administrator may do everything in a real cluster.
type administrator struct {
	settings *rest.Config
	api      *coreclient.Client
}

// rules are rights, as a Role and a ClusterRole list them.
type rules struct {
	Role        []rule `json:"role"`
	ClusterRole []rule `json:"clusterRole"`
}

// rule is one of them.
type rule struct {
	APIGroups []string `json:"apiGroups"`
	Resources []string `json:"resources"`
	Verbs     []string `json:"verbs"`
}

// readRules reads the file that the chart makes its roles of.
func readRules(path string) (rules, error) {
	var read rules
	text, err := os.ReadFile(path)
	if err != nil {
		return read, err
	}
	return read, yaml.UnmarshalStrict(text, &read)
}

// addNamespace makes a namespace with the service account that its pods have by default.
func (p *administrator) addNamespace(ctx context.Context, name string) error {
	if err := p.post(ctx, "/api/v1/namespaces", named("v1", "Namespace", name)); err != nil {
		return err
	}
	return p.post(ctx, "/api/v1/namespaces/"+name+"/serviceaccounts", named("v1", "ServiceAccount", "default"))
}

// addAccount makes a service account of a namespace with these rights and no others, and how it reaches the API server.
func (p *administrator) addAccount(ctx context.Context, namespace, name string, rights rules) (*rest.Config, error) {
	const group = "rbac.authorization.k8s.io"
	in, rbac := "/api/v1/namespaces/"+namespace, "/apis/"+group+"/v1"
	inRBAC := rbac + "/namespaces/" + namespace
	subjects := []any{object{"kind": "ServiceAccount", "name": name, "namespace": namespace}}
	cluster := namespace + "-" + name
	for _, part := range []struct {
		path string
		it   object
	}{
		{in + "/serviceaccounts", named("v1", "ServiceAccount", name)},
		{inRBAC + "/roles", named(group+"/v1", "Role", name).with("rules", rights.Role)},
		{inRBAC + "/rolebindings", named(group+"/v1", "RoleBinding", name).with("subjects", subjects).
			with("roleRef", object{"apiGroup": group, "kind": "Role", "name": name})},
		{rbac + "/clusterroles", named(group+"/v1", "ClusterRole", cluster).with("rules", rights.ClusterRole)},
		{rbac + "/clusterrolebindings", named(group+"/v1", "ClusterRoleBinding", cluster).with("subjects", subjects).
			with("roleRef", object{"apiGroup": group, "kind": "ClusterRole", "name": cluster})},
	} {
		if err := p.post(ctx, part.path, part.it); err != nil {
			return nil, err
		}
	}
	answer, err := p.api.Post().AbsPath(in+"/serviceaccounts/"+name+"/token").
		SetHeader("Content-Type", "application/json").
		Body([]byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":86400}}`)).
		Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("ask for a token of the service account %s: %w", name, err)
	}
	var request struct{ Status struct{ Token string } }
	if err := json.Unmarshal(answer, &request); err != nil {
		return nil, err
	}
	return &rest.Config{Host: p.settings.Host, BearerToken: request.Status.Token,
		TLSClientConfig: rest.TLSClientConfig{CAData: p.settings.CAData}}, nil
}

// object is what the API takes of a kind that coreclient does not know.
type object map[string]any

func named(version, kind, name string) object {
	return object{"apiVersion": version, "kind": kind, "metadata": object{"name": name}}
}

func (o object) with(key string, value any) object {
	o[key] = value
	return o
}

// post makes an object, unless it is there. A namespace that was just made is not known to all of the API server yet.
func (p *administrator) post(ctx context.Context, path string, it object) error {
	text, err := json.Marshal(it)
	if err != nil {
		return err
	}
	for range 50 {
		err = p.api.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body(text).Do(ctx).Error()
		if err == nil || apierrors.IsAlreadyExists(err) {
			return nil
		}
		if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return fmt.Errorf("make the %s %s: %w", it["kind"], it["metadata"].(object)["name"], err)
}
