package connections

import (
	"crypto/sha256"
	"encoding/hex"

	engineaddress "github.com/millrace/millrace/internal/engine/address"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/redisserver"
)

// Config is what the processes of the service connect to. Its keys are the service's; package config reads them.
type Config struct {
	PageURL     string               `json:"page_url"` // where people reach the operator's page; empty: not known
	Redis       Redis                `json:"redis"`
	Temporal    Temporal             `json:"temporal"`
	OTel        OTel                 `json:"otel"`
	Spool       Spool                `json:"spool"`
	RetainSteps int                  `json:"retain_steps"`
	Engines     []Engine             `json:"engines"`
	EngineURLs  engineaddress.Config `json:"engine_urls"`

	EngineAPIKey Secret `json:"-"` // MILLRACE_ENGINE_API_KEY; engineaddress.ConnectionSettings says who gets it
}

// DeploymentName keeps apart what deployments leave on a host: it is that of a Redis and a prefix there.
func (c Config) DeploymentName() string {
	of := c.Redis.Prefix
	if address, err := redisserver.Parse(c.Redis.URL); err == nil { // without the password, which may change
		of = address.Identity() + "\n" + c.Redis.Prefix
	}
	sum := sha256.Sum256([]byte(of))
	return c.Redis.Prefix + "-" + hex.EncodeToString(sum[:4])
}

// Redis is where the buffer is.
type Redis struct {
	URL          string           `json:"url"`
	Prefix       string           `json:"prefix"`
	WaitReplicas int              `json:"wait_replicas"`
	WaitFor      rollout.Duration `json:"wait_for"`
}

// Temporal is where the workflows are.
type Temporal struct {
	Address         string `json:"address"`
	Namespace       string `json:"namespace"`
	TaskQueuePrefix string `json:"task_queue_prefix"`
	TLS             bool   `json:"tls"`
	UIURL           string `json:"ui_url"`

	APIKey Secret `json:"-"` // TEMPORAL_API_KEY
}

// Spool is where facts wait until Redis has them. Without a folder it is millrace/spool where the system keeps the
// state of programs; with 0 bytes facts wait in memory only.
type Spool struct {
	Dir      string `json:"dir"`
	MaxBytes int64  `json:"max_bytes"`
}

// Engine is an engine that is in the fleet from the start; others join over the API.
type Engine struct {
	ID          rollout.EngineID `json:"id"`
	URL         string           `json:"url"`
	MaxInFlight int              `json:"max_in_flight"`
}
