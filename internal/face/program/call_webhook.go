package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// Webhook is a program that is called for each game.
type Webhook struct {
	URL   string
	Token string // empty: none is sent
	HTTP  *http.Client
}

// mostAnswer bounds an answer, in bytes.
const mostAnswer = 1 << 20

// Play sends the game's document, and waits for the answer for as long as the lease goes on. It follows no redirects.
func (w *Webhook) Play(ctx context.Context, g *Game) Ending {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(g.Document))
	if err != nil {
		return Ending{How: Left, Reason: err.Error()}
	}
	req.Header.Set("Content-Type", "application/json")
	if w.Token != "" {
		req.Header.Set("Authorization", "Bearer "+w.Token)
	}
	straight := *w.HTTP
	straight.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := straight.Do(req)
	var cause *url.Error
	if errors.As(err, &cause) { // without the URL, in which there may be a secret
		return Ending{How: Left, Reason: "the webhook cannot be reached: " + cause.Err.Error()}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer+1))
	switch {
	case err != nil:
		return Ending{How: Left, Reason: fmt.Sprintf("read the webhook's answer: %v", err)}
	case len(body) > mostAnswer:
		return Ending{How: Failed, Reason: fmt.Sprintf("the webhook answers more than %d bytes", mostAnswer)}
	}
	return answered(resp.StatusCode, body)
}
