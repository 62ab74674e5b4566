package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certify writes a self-signed certificate for 127.0.0.1 and answers it.
func certify(t *testing.T, dir, name string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// TestTheAPISpeaksTLS: with the certificate of its files, the new one when they change, and not in plain.
func TestTheAPISpeaksTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := certify(t, dir, "first")
	s := serveAPI(t, "tls: {cert_file: "+filepath.Join(dir, "cert.pem")+", key_file: "+filepath.Join(dir,
		"key.pem")+"}\n", nil)
	trusting := func(c *x509.Certificate) *http.Client {
		pool := x509.NewCertPool()
		pool.AddCert(c)
		return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool}}}
	}
	if got, err := s.call("GET", "/v1/runs", "", ""); err == nil && got.status == http.StatusOK {
		t.Error("the API answers in plain HTTP")
	}
	s.url = "https" + strings.TrimPrefix(s.url, "http")
	s.http = trusting(first)
	s.want(http.StatusOK, "GET", "/v1/runs", "", "")

	s.http = trusting(certify(t, dir, "second"))
	s.until("the new certificate is shown", func() bool {
		_, err := s.call("GET", "/v1/runs", "", "")
		return err == nil
	})
	if err := os.WriteFile(filepath.Join(dir, "cert.pem"), []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.until("the fault is logged", func() bool { return strings.Contains(s.log.String(), "stays in force") })
	s.want(http.StatusOK, "GET", "/v1/runs", "", "")
}
