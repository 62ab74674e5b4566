package kubernetes

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"
)

// apiServer is where an API server is, and how it shows that it is the right one.
type apiServer struct {
	Server     string `json:"server"`
	ServerName string `json:"tls-server-name,omitempty"`
	Insecure   bool   `json:"insecure-skip-tls-verify,omitempty"`
	CAFile     string `json:"certificate-authority,omitempty"`
	CAData     []byte `json:"certificate-authority-data,omitempty"`
	ProxyURL   string `json:"proxy-url,omitempty"`
}

// transport makes connections to an API server. One whose other end has gone without a word is noticed and given up.
func (s *apiServer) transport(who *credentials) (*http.Transport, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second}
	t.TLSClientConfig = &tls.Config{ServerName: s.ServerName, InsecureSkipVerify: s.Insecure}
	t.TLSClientConfig.GetClientCertificate = func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return who.certificate(asked.Context())
	}
	if s.ProxyURL != "" {
		proxy, err := url.Parse(s.ProxyURL)
		if err != nil {
			return nil, fmt.Errorf("kubernetes: proxy-url of the kubeconfig: %w", err)
		}
		t.Proxy = http.ProxyURL(proxy)
	}
	if len(s.CAData) == 0 && s.CAFile != "" {
		text, err := os.ReadFile(s.CAFile)
		if err != nil {
			return nil, fmt.Errorf("kubernetes: the API server's certificate authority: %w", err)
		}
		s.CAData, s.CAFile = text, ""
	}
	if len(s.CAData) > 0 {
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(s.CAData) {
			return nil, errors.New("kubernetes: the API server's certificate authority is no certificate in PEM")
		}
	}
	return t, nil
}
