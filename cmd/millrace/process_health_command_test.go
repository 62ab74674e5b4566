package main

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	answer := func(status int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/healthz" {
				_, _ = w.Write([]byte("ok\n"))
				return
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"ready":` + map[bool]string{true: "true", false: "false"}[status == 200] + "}\n"))
		})
	}
	serve := func(h http.Handler) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	ready, unready := serve(answer(http.StatusOK)), serve(answer(http.StatusServiceUnavailable))
	slow := serve(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	configured := filepath.Join(t.TempDir(), "service.yaml")
	nobody := freeTestAddress(t)
	rewrite(t, configured, "listen: "+strings.TrimPrefix(ready, "http://")+"\nworker: {listen: '"+nobody+"'}\n")
	for _, tt := range []struct {
		args []string
		code int
		say  string
	}{
		{[]string{"--address", ready}, 0, `{"ready":true}`},
		{[]string{"--address", unready}, 1, "not ready: status 503"},
		{[]string{"--address", unready, "--live"}, 0, "ok"},
		{[]string{"--address", slow, "--timeout", "50ms"}, 5, "does not answer within 50ms"},
		{[]string{"--address", "http://" + nobody}, 5, "does not answer"},
		{[]string{"-c", configured}, 0, "the server at " + ready},
		{[]string{"server", "-c", configured}, 0, `{"ready":true}`},
		{[]string{"worker", "-c", configured}, 5, "the worker at http://" + nobody},
		{[]string{"engine"}, 2, "engine"},
		{[]string{"--timeout", "0s"}, 2, "want a time"},
		{[]string{"--address", ready, "--cert-file", "a.pem"}, 2, "belong together"},
	} {
		code, _, said := commanded(append([]string{"health"}, tt.args...)...)
		if code != tt.code || !strings.Contains(said, tt.say) {
			t.Errorf("millrace health %v: exit code %d, %s; want %d, %s", tt.args, code, said, tt.code, tt.say)
		}
	}
	rewrite(t, configured, "listen: "+nobody+"\nworker: {listen: ''}\n")
	code, _, said := commanded("health", "-c", configured)
	if code != 5 || !strings.Contains(said, "this machine does not answer: neither") {
		t.Errorf("nobody is there: exit code %d, %s", code, said)
	}
}

// TestHealthOverTLS: on loopback the certificate must be the server's own, whatever name it is for.
func TestHealthOverTLS(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("up"))
	}))
	t.Cleanup(s.Close)
	key, err := x509.MarshalPKCS8PrivateKey(s.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, der []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("cert.pem", "CERTIFICATE", s.Certificate().Raw)
	write("key.pem", "PRIVATE KEY", key)
	address := strings.TrimPrefix(s.URL, "https://")
	file := filepath.Join(dir, "service.yaml")
	rewrite(t, file, "listen: "+address+"\ntls: {cert_file: "+dir+"/cert.pem, key_file: "+dir+"/key.pem}\n")
	if code, _, said := commanded("health", "server", "-c", file); code != 0 {
		t.Errorf("exit code %d, %s", code, said)
	}
	code, _, said := commanded("health", "server", "--address", s.URL)
	if code != 5 || !strings.Contains(said, "certificate") {
		t.Errorf("elsewhere the certificate must be trusted: exit code %d, %s", code, said)
	}
}

func TestReachable(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		"0.0.0.0:8700": "127.0.0.1:8700", "[::]:8700": "127.0.0.1:8700", ":8700": "127.0.0.1:8700",
		"10.0.0.7:8700": "10.0.0.7:8700", "localhost:1": "localhost:1", "[::1]:8700": "[::1]:8700",
	} {
		if got := reachable(listen); got != want {
			t.Errorf("%s is reached at %s, want %s", listen, got, want)
		}
	}
}
