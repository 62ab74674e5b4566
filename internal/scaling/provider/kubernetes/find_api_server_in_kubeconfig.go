package kubernetes

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
)

// kubeconfig is one, or several put together.
type kubeconfig struct {
	CurrentContext string `json:"current-context"`
	Clusters       []struct {
		Name    string
		Cluster apiServer
	}
	Users []struct {
		Name string
		User identity
	}
	Contexts []struct {
		Name    string
		Context struct{ Cluster, User, Namespace string }
	}
}

// identity is a user's credentials for the API server.
type identity struct {
	Token     string         `json:"token"`
	TokenFile string         `json:"tokenFile"`
	Username  string         `json:"username"`
	Password  string         `json:"password"`
	CertFile  string         `json:"client-certificate"`
	CertData  []byte         `json:"client-certificate-data"`
	KeyFile   string         `json:"client-key"`
	KeyData   []byte         `json:"client-key-data"`
	Exec      *plugin        `json:"exec"`
	As        string         `json:"as"`
	Provider  map[string]any `json:"auth-provider"`
}

// serviceAccount is where a pod finds the credentials of its own.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// findServer is the API server, who this process is there, and the namespace that is meant where none is configured.
func findServer(cfg Config) (apiServer, identity, string, error) {
	token := filepath.Join(serviceAccount, "token")
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if _, err := os.Stat(token); err == nil && host != "" && cfg.Kubeconfig == "" && cfg.Context == "" {
		name, _ := os.ReadFile(filepath.Join(serviceAccount, "namespace"))
		own := apiServer{Server: "https://" + net.JoinHostPort(host, port), CAFile: filepath.Join(serviceAccount, "ca.crt")}
		return own, identity{TokenFile: token}, cmp.Or(cfg.Namespace, strings.TrimSpace(string(name)), "default"), nil
	}
	files, err := readKubeconfigs(cfg.Kubeconfig)
	var at apiServer
	var who identity
	var namespace string
	if err == nil {
		at, who, namespace, err = files.choose(cfg.Context)
	}
	if err != nil {
		return at, who, "", fmt.Errorf("kubernetes: this process is not a pod with a service account, and no kubeconfig "+
			"names an API server: set kubernetes.kubeconfig, or KUBECONFIG: %w", err)
	}
	return at, who, cmp.Or(cfg.Namespace, namespace, "default"), nil
}

// readKubeconfigs reads the file that is named, or all that KUBECONFIG names, or that of kubectl. What several files
// say is that of the first of them.
func readKubeconfigs(named string) (kubeconfig, error) {
	home, _ := os.UserHomeDir()
	paths := filepath.SplitList(cmp.Or(named, os.Getenv("KUBECONFIG"), filepath.Join(home, ".kube", "config")))
	var all kubeconfig
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) && len(paths) > 1 {
			continue
		}
		if err != nil {
			return all, err
		}
		var one kubeconfig
		if err := unmarshalYAML(text, &one); err != nil {
			return all, fmt.Errorf("%s: %w", path, err)
		}
		one.resolvePaths(filepath.Dir(path))
		all.CurrentContext = cmp.Or(all.CurrentContext, one.CurrentContext)
		all.Clusters = append(all.Clusters, one.Clusters...)
		all.Users = append(all.Users, one.Users...)
		all.Contexts = append(all.Contexts, one.Contexts...)
	}
	return all, nil
}

// resolvePaths: files are named relative to the kubeconfig, and so is a plugin that is not to be found in PATH.
func (k *kubeconfig) resolvePaths(dir string) {
	resolve := func(path *string) {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
	for i := range k.Clusters {
		resolve(&k.Clusters[i].Cluster.CAFile)
	}
	for i := range k.Users {
		u := &k.Users[i].User
		for _, path := range []*string{&u.TokenFile, &u.CertFile, &u.KeyFile} {
			resolve(path)
		}
		if u.Exec != nil && strings.ContainsRune(u.Exec.Command, filepath.Separator) {
			resolve(&u.Exec.Command)
		}
	}
}

// choose returns the server and user that a context names; empty: the current context.
func (k *kubeconfig) choose(context string) (at apiServer, who identity, namespace string, err error) {
	context = cmp.Or(context, k.CurrentContext)
	for _, c := range k.Contexts {
		if c.Name != context {
			continue
		}
		for _, found := range k.Clusters {
			if found.Name == c.Context.Cluster && at.Server == "" {
				at = found.Cluster
			}
		}
		known := c.Context.User == ""
		for _, found := range k.Users {
			if found.Name == c.Context.User && !known {
				who, known = found.User, true
			}
		}
		switch {
		case at.Server == "":
			return at, who, "", fmt.Errorf("context %q: there is no server of a cluster %q", context, c.Context.Cluster)
		case !known:
			return at, who, "", fmt.Errorf("context %q: there is no user %q", context, c.Context.User)
		case who.As != "" || who.Provider != nil:
			return at, who, "", fmt.Errorf("user %q: neither as nor auth-provider is known here; use exec", c.Context.User)
		}
		if !strings.Contains(at.Server, "://") {
			at.Server = "https://" + at.Server
		}
		at.Server = strings.TrimRight(at.Server, "/")
		return at, who, c.Context.Namespace, nil
	}
	return at, who, "", fmt.Errorf("there is no context %q", context)
}

// unmarshalYAML reads YAML as kubectl does: into what its JSON would be read into.
func unmarshalYAML(text []byte, into any) error {
	text, err := toJSON(text)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func toJSON(text []byte) ([]byte, error) {
	if json.Valid(text) {
		return text, nil
	}
	var document any
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("no YAML: %w", err)
	}
	return json.Marshal(document)
}
