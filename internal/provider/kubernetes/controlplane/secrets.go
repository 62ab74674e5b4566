package controlplane

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// secrets are the files by which the API server knows its users.
type secrets struct {
	dir        string // the API server puts its certificate there
	tokens     string
	accountKey string // signs service accounts' tokens
	adminToken string
}

func (p *Plane) writeSecrets() (secrets, error) {
	s := secrets{dir: filepath.Join(p.cfg.Dir, "secrets")}
	s.tokens, s.accountKey = filepath.Join(s.dir, "tokens.csv"), filepath.Join(s.dir, "accounts.key")
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return s, err
	}
	var token [16]byte
	_, _ = rand.Read(token[:]) // never fails
	s.adminToken = hex.EncodeToString(token[:])
	if err := os.WriteFile(s.tokens, []byte(s.adminToken+`,admin,admin,"system:masters"`+"\n"), 0o600); err != nil {
		return s, err
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return s, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return s, os.WriteFile(s.accountKey, text, 0o600)
}

// WriteKubeconfig writes a kubeconfig of a user, whose default namespace it names.
func (p *Plane) WriteKubeconfig(user string, settings *rest.Config, namespace string) (path string, err error) {
	file := clientcmdapi.NewConfig()
	file.Clusters["local"] = &clientcmdapi.Cluster{
		Server: settings.Host, CertificateAuthorityData: settings.CAData,
	}
	file.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: settings.BearerToken}
	file.Contexts[user] = &clientcmdapi.Context{Cluster: "local", AuthInfo: user, Namespace: namespace}
	file.CurrentContext = user
	path = filepath.Join(p.cfg.Dir, user+".kubeconfig")
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		return "", fmt.Errorf("write the kubeconfig of %s: %w", user, err)
	}
	return path, nil
}
