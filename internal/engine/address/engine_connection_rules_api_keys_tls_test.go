package address

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestKeyGoesWhereItIsMeant: an engine that somebody added gets no key unless the service's operators meant its
// address.
func TestKeyGoesWhereItIsMeant(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys")
	write(t, file, "# engines and their keys\nhttp://gpu7:8000  seven\n\n*.gpu.internal team\n10.9.0.0/16 nine\n")
	for _, tt := range []struct {
		name     string
		cfg      Config
		url      string
		followed bool
		want     string
	}{
		{"somebody's", Config{}, "http://10.0.0.66:9740/admin", false, ""},
		{"of the configuration", Config{}, "http://10.0.0.7:8000", false, "default"},
		{"of a list that is followed", Config{}, "http://10.0.0.8:8000", true, "default"},
		{"of an allowed range", Config{Allow: []string{"10.0.0.0/8"}}, "http://10.0.0.66:8000", false, "default"},
		{"its own", Config{KeysFile: file}, "http://gpu7:8000", false, "seven"},
		{"its domain's", Config{KeysFile: file}, "https://a.gpu.internal", true, "team"},
		{"its range's", Config{KeysFile: file}, "http://10.9.1.1:8000", false, "nine"},
		{"of another port", Config{KeysFile: file}, "http://gpu7:8001", false, ""},
		{"that looks alike", Config{KeysFile: file}, "http://gpu7.evil.example:8000", false, ""},
		{"that has the prefix as a user", Config{KeysFile: file}, "http://gpu7:8000@evil.example", false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, err := NewConnectionSettings(tt.cfg, "default", []string{"http://10.0.0.7:8000"}, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			if got := a.Key(tt.url, tt.followed); got != tt.want {
				t.Errorf("key %q, want %q", got, tt.want)
			}
			// What is no engine gets no key but that of a URL in the file.
			if got, want := a.NamedKey(tt.url), map[string]string{"seven": "seven"}[tt.want]; got != want {
				t.Errorf("named key %q, want %q", got, want)
			}
		})
	}
}

// A URL that a spec names is judged by its host's name, too, before anything is connected.
func TestURLOfSpecIsJudged(t *testing.T) {
	t.Parallel()
	a, err := NewConnectionSettings(Config{Deny: []string{"*.internal"}}, "", nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for url, ok := range map[string]bool{"https://api.example.com/v1": true, "http://vault.internal/v1": false,
		"http://169.254.169.254/v1": false, "http://metadata/v1": false} {
		if _, err := a.DialNamed(url); (err == nil) != ok {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestKeysAreReadAgain: within a second of the clock; a file that cannot be read changes nothing.
func TestKeysAreReadAgain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys")
	write(t, file, "gpu7 old\n")
	now := time.Unix(1_700_000_000, 0)
	a, err := NewConnectionSettings(Config{KeysFile: file}, "", nil, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	step := func(text, want string) {
		t.Helper()
		if text == "" {
			_ = os.Remove(file)
		} else {
			write(t, file, text)
			if err := os.Chtimes(file, now, now); err != nil {
				t.Fatal(err)
			}
		}
		now = now.Add(time.Second)
		if got := a.Key("http://gpu7", false); got != want {
			t.Errorf("after %q: key %q, want %q", text, got, want)
		}
	}
	step("gpu7 new\n", "new")
	step("gpu7\n", "new")
	step("", "new")
	step("gpu8 other\n", "")
	if _, err := NewConnectionSettings(Config{KeysFile: file + "x"}, "", nil, time.Now); err == nil {
		t.Error("a file that is not there at the start is taken")
	}
}

// TestTLSToEngines: the service trusts whom the entry says, under the name that it says, and shows its certificate.
func TestTLSToEngines(t *testing.T) {
	t.Parallel()
	shown := 0
	engine := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		shown = len(r.TLS.PeerCertificates)
	}))
	engine.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	engine.StartTLS()
	defer engine.Close()
	dir := t.TempDir()
	ca, cert, key := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write(t, ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: engine.Certificate().Raw})))
	writeCertificate(t, cert, key)
	a, err := NewConnectionSettings(Config{TLS: []TLS{
		{Engines: "https://127.0.0.1:1", CAFile: ca},
		{Engines: "https://127.0.0.1", CAFile: ca, CertFile: cert, KeyFile: key, ServerName: "example.com"},
	}}, "", nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: a.TLS(engine.URL)}}
	resp, err := client.Get(engine.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if shown != 1 {
		t.Errorf("%d certificates were shown", shown)
	}
	if a.TLS("https://10.0.0.1") != nil {
		t.Error("the entry holds for an engine that it does not mean")
	}
	write(t, ca, "no certificate")
	if _, err := NewConnectionSettings(Config{TLS: []TLS{{Engines: "gpu", CAFile: ca}}}, "", nil, time.Now); err == nil {
		t.Error("a file without certificates is taken")
	}
}

// writeCertificate makes a certificate that signs itself, and its key.
func writeCertificate(t *testing.T, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, certFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})))
	write(t, keyFile, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
}
