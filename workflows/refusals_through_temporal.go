package workflows

import (
	"errors"

	"go.temporal.io/sdk/temporal"

	"github.com/millrace/millrace/internal/rollout"
)

// refusal carries a typed refusal through Temporal, which only keeps an error's type name and text.
func refusal(err error) error {
	var r *rollout.Refusal
	if !errors.As(err, &r) {
		return err
	}
	return temporal.NewNonRetryableApplicationError(r.Text, string(r.Code), nil)
}

// refused is the way back: an application error whose type is a refusal code becomes that refusal.
func refused(err error) error {
	var app *temporal.ApplicationError
	if !errors.As(err, &app) {
		return err
	}
	switch code := rollout.RefusalCode(app.Type()); code {
	case rollout.Conflict, rollout.Fenced, rollout.Invalid, rollout.OutOfOrder, rollout.RunOver, rollout.Unavailable,
		rollout.NotScaled:
		return rollout.Refuse(code, "%s", app.Message())
	}
	return err
}

// cause is the text of what went wrong, without Temporal's wrapping.
func cause(err error) string {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return app.Message()
	}
	return err.Error()
}
