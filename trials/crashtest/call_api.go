package crashtest

import (
	"context"
	"net/http"
	"time"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/rollout"
)

func (w *watch) call(ctx context.Context, method, path string, body any) (apiclient.Answer, error) {
	return w.callAt(ctx, w.service.Server, method, path, body)
}

// callAt calls the server at an address.
func (w *watch) callAt(ctx context.Context, server, method, path string, body any) (apiclient.Answer, error) {
	client, err := apiclient.New("http://"+server, "", w.service.HTTP)
	if err != nil {
		return apiclient.Answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	return client.Ask(ctx, method, path, body)
}

// transient reports whether the service could not answer now.
func transient(a apiclient.Answer) bool { return a.Status >= http.StatusInternalServerError }

// is reports whether the answer is a refusal for that reason.
func is(a apiclient.Answer, code rollout.RefusalCode) bool {
	refused := a.Refusal()
	return refused != nil && refused.Code() == code
}
