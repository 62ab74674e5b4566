package resources

import (
	_ "embed"
	"fmt"
	"net/http"
	neturl "net/url"
	"strings"

	client "github.com/axiomhq/axiom-go/axiom"
)

// Connect makes the caller of Axiom's API. An empty url is Axiom's own; org is needed with a personal token only.
func Connect(token, org, url string, through *http.Client) (Caller, error) {
	options := []client.Option{client.SetNoEnv(), client.SetNoRetry(), client.SetNoTracing(), client.SetClient(through)}
	if strings.HasPrefix(token, "xapt-") { // personal
		options = append(options, client.SetPersonalTokenConfig(token, org))
	} else {
		options = append(options, client.SetAPITokenConfig(token))
	}
	if url = manages(url); url != "" {
		options = append(options, client.SetURL(url))
	}
	c, err := client.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("AXIOM_TOKEN and AXIOM_URL (tokens begin with xaat-): %w", err)
	}
	return c, nil
}

// manages is the address for dashboards and all else that is no event: an edge deployment takes events alone.
func manages(url string) string {
	if u, err := neturl.Parse(url); err == nil && strings.HasSuffix(u.Hostname(), ".edge.axiom.co") {
		return ""
	}
	return url
}
