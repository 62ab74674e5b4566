package vllm

import (
	"errors"
	"fmt"

	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// mostAsked is how many engines are asked a question that any of them can answer.
const mostAsked = 3

// First is the answer of the first engine that answers at all; one that has no client is passed over, too.
func First[T any](engines []enginestate.Engine, clientOf func(enginestate.Engine) (*Client, error),
	question func(*Client) (T, error)) (answer T, err error) {
	for _, e := range engines[:min(len(engines), mostAsked)] {
		client, fault := clientOf(e)
		if fault == nil {
			if answer, fault = question(client); fault == nil {
				return answer, nil
			}
		}
		err = errors.Join(err, fmt.Errorf("engine %s: %w", e.ID, fault))
	}
	return answer, err
}
