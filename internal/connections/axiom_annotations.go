package connections

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/telemetry/axiom/annotations"
	"github.com/millrace/millrace/internal/telemetry/axiom/resources"
)

// Annotations marks publications, changes and verdicts in Axiom's charts, or is nil when Axiom is not configured. It is
// to be started; of the servers of a deployment one writes.
func (b *Set) Annotations(cfg config.Axiom) (*annotations.Writer, error) {
	if !cfg.Enabled() {
		return nil, nil
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	axiom, err := resources.Connect(cfg.Token.Reveal(), cfg.OrgID, cfg.URL, &http.Client{Timeout: 30 * time.Second,
		Transport: transport})
	if err != nil {
		return nil, err
	}
	owner := fmt.Sprintf("%d/%s", os.Getpid(), rand.Text()[:8])
	return annotations.New(cfg.Dataset, axiom, b.Events, owner, b.Log), nil
}
