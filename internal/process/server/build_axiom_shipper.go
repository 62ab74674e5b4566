package server

import (
	"crypto/rand"
	"fmt"
	"os"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/observe/axiom"
	"github.com/millrace/millrace/internal/process/connections"
	"github.com/millrace/millrace/internal/store/eventstore/delivery"
)

// newShipper delivers events from the store to Axiom, or is nil when Axiom is not configured. It is to be started; of
// the servers of a deployment one delivers, and the others stand by.
func newShipper(cfg config.Axiom, b *connections.Set, sink *delivery.Sink) (*axiom.Shipper, error) {
	if !cfg.Enabled() {
		switch {
		case cfg.Token != "":
			b.Log.Warn("AXIOM_TOKEN is set, but no dataset: nothing is delivered to Axiom; set AXIOM_DATASET or axiom.dataset")
		case cfg.Dataset != "":
			b.Log.Warn("axiom.dataset is set, but no token: nothing is delivered to Axiom; set AXIOM_TOKEN")
		}
		return nil, nil
	}
	host, err := os.Hostname()
	if err != nil {
		host = "server"
	}
	owner := fmt.Sprintf("%s/%d/%s", host, os.Getpid(), rand.Text()[:8]) // pids come again
	shipper, err := axiom.New(axiom.Config{Token: cfg.Token.Reveal(), Dataset: cfg.Dataset, URL: cfg.URL,
		OrgID: cfg.OrgID}, sink, owner, b.Log, b.Events)
	if err != nil {
		return nil, fmt.Errorf("AXIOM_TOKEN, AXIOM_DATASET, AXIOM_URL and AXIOM_ORG_ID: %w", err)
	}
	b.Log.Info("events are delivered to Axiom by one server at a time", "dataset", cfg.Dataset)
	return shipper, nil
}
