package resources

import (
	"fmt"
	"net/http"

	client "github.com/axiomhq/axiom-go/axiom"
)

// Connect makes the caller of Axiom's API. An empty url is Axiom's own; org is needed with a personal token only.
func Connect(token, org, url string, through *http.Client) (Caller, error) {
	options := []client.Option{client.SetNoEnv(), client.SetNoRetry(), client.SetNoTracing(), client.SetClient(through)}
	if org != "" {
		options = append(options, client.SetPersonalTokenConfig(token, org))
	} else {
		options = append(options, client.SetAPITokenConfig(token))
	}
	if url != "" {
		options = append(options, client.SetURL(url))
	}
	c, err := client.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("AXIOM_TOKEN and AXIOM_URL (tokens begin with xaat-): %w", err)
	}
	return c, nil
}
