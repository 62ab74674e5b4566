//go:build linux

package podsandbox

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
)

// environment is that of a container: its image's, how the API server is found, and its own, in order.
func (p *pod) environment(ctx context.Context, c *core.Container) ([]string, error) {
	host, port, err := net.SplitHostPort(p.cfg.APIServer)
	if err != nil {
		return nil, err
	}
	all := map[string]string{
		"PATH":                    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port, "HOSTNAME": p.manifest.Name,
	}
	maps.Copy(all, p.cfg.Images[c.Image].Env)
	for _, v := range c.Env {
		value, err := p.value(ctx, v)
		if err != nil {
			return nil, err
		}
		all[v.Name] = expand(value, lines(all))
	}
	return lines(all), nil
}

func lines(all map[string]string) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, name+"="+all[name])
	}
	return list
}

// value is what a variable is set to.
func (p *pod) value(ctx context.Context, v core.EnvVar) (string, error) {
	from := v.ValueFrom
	switch {
	case from == nil:
		return v.Value, nil
	case from.FieldRef != nil:
		return p.field(from.FieldRef.FieldPath)
	case from.SecretKeyRef != nil:
		data, err := p.secret(ctx, from.SecretKeyRef.Name)
		if err != nil {
			return "", err
		}
		value, ok := data[from.SecretKeyRef.Key]
		if !ok {
			return "", fmt.Errorf("couldn't find key %s in Secret %s", from.SecretKeyRef.Key, from.SecretKeyRef.Name)
		}
		return string(value), nil
	}
	return "", fmt.Errorf("variable %s: nothing here knows where its value comes from", v.Name)
}

// field is a field of the pod, as the downward API has it.
func (p *pod) field(path string) (string, error) {
	switch path {
	case "status.podIP":
		return p.address.String(), nil
	case "metadata.name":
		return p.manifest.Name, nil
	case "metadata.namespace":
		return p.manifest.Namespace, nil
	case "metadata.uid":
		return string(p.manifest.UID), nil
	case "spec.nodeName":
		return p.manifest.Spec.NodeName, nil
	}
	return "", fmt.Errorf("nothing here knows the field %s", path)
}

// expand fills in $(NAME).
func expand(text string, env []string) string {
	for _, line := range env {
		name, value, _ := strings.Cut(line, "=")
		text = strings.ReplaceAll(text, "$("+name+")", value)
	}
	return text
}
