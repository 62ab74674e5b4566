package kubernetes

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

func writeFile(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// secureServer is an API server that takes the token t2 alone, from whoever has a client's certificate.
func secureServer(t *testing.T) (server *httptest.Server, ca, cert, key string) {
	t.Helper()
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t2" {
			http.Error(w, `{"message": "Unauthorized", "reason": "Unauthorized"}`, http.StatusUnauthorized)
			return
		}
		_, _ = fmt.Fprintf(w, `{"metadata": {"name": %q}}`, r.URL.Path)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	own := server.TLS.Certificates[0]
	der, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]}))
	return server, ca, ca, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// TestKubeconfigs: files of several kubeconfigs are put together; a plugin's token is asked for again once it is over
// or was refused, and a file's is read each time.
func TestKubeconfigs(t *testing.T) {
	server, ca, cert, key := secureServer(t)
	dir := t.TempDir()
	answer, err := json.Marshal(map[string]any{"status": map[string]string{"token": "TOKEN",
		"clientCertificateData": cert, "clientKeyData": key, "expirationTimestamp": "2036-01-01T00:00:00Z"}})
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "answer"), string(answer))
	writeFile(t, filepath.Join(dir, "plugin"), `#!/bin/sh
echo "$1 $NAME $KUBERNETES_EXEC_INFO" >> `+dir+`/asked
sed "s/TOKEN/t$(wc -l < `+dir+`/asked)/" < `+dir+`/answer
`)
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	writeFile(t, filepath.Join(dir, "ca.crt"), ca)
	writeFile(t, filepath.Join(dir, "token"), "t1\n")
	one := writeFile(t, filepath.Join(dir, "one"), `
current-context: exec
contexts:
- {name: exec, context: {cluster: it, user: cloud, namespace: rollouts}}
- {name: file, context: {cluster: it, user: file}}
- {name: nobody, context: {cluster: it, user: nobody}}
- {name: as, context: {cluster: it, user: as}}
users:
- name: cloud
  user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin, args: [get], provideClusterInfo: true,
    env: [{name: NAME, value: own}]}}
- {name: as, user: {as: admin}}
`)
	two := writeFile(t, filepath.Join(dir, "two"), `
current-context: another
clusters: [{name: it, cluster: {server: "`+server.URL+`", certificate-authority: ca.crt}}]
users: [{name: file, user: {tokenFile: token, client-certificate-data: `+encode(cert)+`, client-key-data: `+
		encode(key)+`}}]
`)
	t.Setenv("KUBECONFIG", one+":"+filepath.Join(dir, "none")+":"+two)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")

	for context, renew := range map[string]func(){
		"": func() {}, "file": func() { writeFile(t, filepath.Join(dir, "token"), "t2") },
	} {
		api, err := connect(Config{Template: "/t", Context: context, Timeout: Unset().Timeout})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := api.pod(t.Context(), "p"); reasonOf(err) != "Unauthorized" {
			t.Errorf("context %q: a token that is not known: %v", context, err)
		}
		renew()
		for range 3 {
			pod, err := api.pod(t.Context(), "p")
			if want := "/api/v1/namespaces/" + api.namespace + "/pods/p"; err != nil || pod.Name != want {
				t.Errorf("context %q: %v, %+v", context, err, pod)
			}
		}
		if context == "" && api.namespace != "rollouts" || context != "" && api.namespace != "default" {
			t.Errorf("context %q: namespace %s", context, api.namespace)
		}
	}
	asked, err := os.ReadFile(filepath.Join(dir, "asked"))
	if lines := strings.Count(string(asked), "get own "); err != nil || lines != 2 ||
		!strings.Contains(string(asked), `"certificate-authority-data":"`) || !strings.Contains(string(asked), server.URL) {
		t.Errorf("%v: the plugin was asked %d times:\n%s", err, lines, asked)
	}
	for context, says := range map[string]string{"nobody": `no user "nobody"`, "as": "use exec", "none": "no context"} {
		if _, err := connect(Config{Context: context}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("context %s: %v, want %q", context, err, says)
		}
	}
}

// TestPluginThatFails: its last words are told, with how it is installed, and nobody is asked.
func TestPluginThatFails(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	defer server.Close()
	path := writeFile(t, filepath.Join(t.TempDir(), "config"), `{"current-context": "c", "contexts": [{"name": "c",
	"context": {"cluster": "c", "user": "u"}}], "clusters": [{"name": "c", "cluster": {"server": "`+server.URL+`"}}],
	"users": [{"name": "u", "user": {"exec": {"command": "sh", "args": ["-c", "echo log in first >&2; exit 1"],
	"installHint": "brew install it"}}}]}`)
	api, err := connect(Config{Kubeconfig: path, Timeout: Unset().Timeout})
	if err != nil {
		t.Fatal(err)
	}
	_, err = api.pod(context.Background(), "p")
	for _, want := range []string{"plugin sh", "log in first", "brew install it"} {
		if err == nil || !strings.Contains(explain(err, "read the pod").Error(), want) {
			t.Errorf("%v; want it to say %q", err, want)
		}
	}
	if requests.Load() != 0 {
		t.Errorf("%d requests without credentials", requests.Load())
	}
}

// TestYAMLIsReadAsKubectlDoes where files of templates differ from one reader of YAML to another.
func TestYAMLIsReadAsKubectlDoes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"mode: 0644": `{"mode":420}`, "n: 1": `{"n":1}`, `n: "1"`: `{"n":"1"}`, "b: true": `{"b":true}`, "e:": `{"e":null}`,
		"cpu: 500m": `{"cpu":"500m"}`, "big: 10000000000": `{"big":10000000000}`,
		"a: &x {k: v}\nb: *x": `{"a":{"k":"v"},"b":{"k":"v"}}`,
		"s: |\n  a\n  b\n":    `{"s":"a\nb\n"}`, "{\n\t\"j\": 1.5\n}": "{\n\t\"j\": 1.5\n}", "c: # none\n- a": `{"c":["a"]}`,
		"t: 2026-11-23": `{"t":"2026-11-23"}`, "a: 1\n---\na: 2": `{"a":1}`,
	} {
		got, err := toJSON([]byte(text))
		if err != nil || string(got) != want {
			t.Errorf("%q is %s (%v), want %s", text, got, err, want)
		}
	}
	if _, err := toJSON([]byte("a: 1\na: 2")); err == nil {
		t.Error("a key twice is no fault")
	}
}
