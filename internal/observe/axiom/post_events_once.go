package axiom

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/millrace/millrace/internal/kit/version"
)

// maxAnswer bounds what is read of an answer: some ten thousand failures with long texts.
const maxAnswer = 8 << 20

// client sends events to one dataset. It makes its requests itself: the vendor's library retries on its own, ignores
// deadlines, and loses the headers and bodies of most refusals, which decide what is done about them.
type client struct {
	endpoint string
	dataset  string
	token    string
	orgID    string
	http     *http.Client
	encoder  *zstd.Encoder
}

func newClient(cfg Config) (*client, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("axiom: %w", err)
	}
	transport := cfg.Transport
	if transport == nil {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.Proxy = http.ProxyFromEnvironment
		transport = own
	}
	return &client{
		endpoint: endpoint(cfg.URL, cfg.Dataset), dataset: cfg.Dataset, token: cfg.Token, orgID: cfg.OrgID,
		encoder: encoder,
		http: &http.Client{
			Transport: transport, Timeout: cfg.Timeout,
			// A redirect of a POST would arrive as a GET, or carry the token elsewhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// endpoint is where a dataset's events are posted: an edge deployment has another path than the rest of Axiom.
func endpoint(base, dataset string) string {
	base = strings.TrimRight(base, "/")
	if u, err := url.Parse(base); err == nil && strings.HasSuffix(u.Hostname(), ".edge.axiom.co") {
		return base + "/v1/ingest/" + url.PathEscape(dataset)
	}
	return base + "/v1/datasets/" + url.PathEscape(dataset) + "/ingest"
}

// send posts events, a line of JSON each, and returns what came of it: always an answer, if only that none came.
func (c *client) send(ctx context.Context, lines [][]byte) answer {
	size := 0
	for _, l := range lines {
		size += len(l) + 1
	}
	text := bytes.NewBuffer(make([]byte, 0, size))
	for _, l := range lines {
		text.Write(l)
		text.WriteByte('\n')
	}
	body := c.encoder.EncodeAll(text.Bytes(), nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(body))
	if err != nil {
		return answer{failure: err}
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/x-ndjson")
	req.Header.Set("Content-Encoding", "zstd")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "millrace/"+version.String())
	if c.orgID != "" {
		req.Header.Set("X-Axiom-Org-Id", c.orgID)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{failure: withoutURL(err)}
	}
	defer resp.Body.Close()
	read, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return answer{failure: fmt.Errorf("the answer broke off: %w", err)}
	}
	return readAnswer(resp.StatusCode, resp.Header, read)
}

// withoutURL drops what net/http says before the cause: the method and the address, which the reader knows.
func withoutURL(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
