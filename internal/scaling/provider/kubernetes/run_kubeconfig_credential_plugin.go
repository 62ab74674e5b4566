package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/millrace/millrace/internal/scaling/provider"
)

// plugin is a command that has credentials, such as a cloud's.
type plugin struct {
	APIVersion  string                         `json:"apiVersion"`
	Command     string                         `json:"command"`
	Args        []string                       `json:"args"`
	Env         []struct{ Name, Value string } `json:"env"`
	InstallHint string                         `json:"installHint"`
	TellCluster bool                           `json:"provideClusterInfo"`
}

// pluginAnswer is the status of an ExecCredential.
type pluginAnswer struct {
	Token, ClientCertificateData, ClientKeyData string
	ExpirationTimestamp                         time.Time
}

func (p *plugin) run(ctx context.Context, server *apiServer) (*pluginAnswer, error) {
	spec := map[string]any{"interactive": false}
	if p.TellCluster {
		spec["cluster"] = server
	}
	asked, err := json.Marshal(map[string]any{"apiVersion": p.APIVersion, "kind": "ExecCredential", "spec": spec})
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, p.Command, p.Args...)
	command.Env = append(os.Environ(), "KUBERNETES_EXEC_INFO="+string(asked))
	for _, e := range p.Env {
		command.Env = append(command.Env, e.Name+"="+e.Value)
	}
	var says, complains bytes.Buffer
	command.Stdout, command.Stderr, command.WaitDelay = &says, &complains, time.Second
	if err := command.Run(); err != nil {
		return nil, errors.New(sentence(err.Error(), provider.LastWords(complains.Bytes()), p.InstallHint))
	}
	var answer struct{ Status pluginAnswer }
	if err := json.Unmarshal(says.Bytes(), &answer); err != nil {
		return nil, fmt.Errorf("its answer: %w", err)
	}
	if answer.Status.Token == "" && answer.Status.ClientCertificateData == "" {
		return nil, errors.New("its answer has neither a token nor a certificate")
	}
	return &answer.Status, nil
}
