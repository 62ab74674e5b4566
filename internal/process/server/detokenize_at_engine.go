package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/millrace/millrace/config"
	engineaddress "github.com/millrace/millrace/internal/engine/address"
	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/face/savedgame"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// mostAsked is how many engines are asked for the text of tokens before it is left out.
const mostAsked = 3

// engineTokenizer has a ready engine write tokens as text, for people who look at a turn.
type engineTokenizer struct {
	registry *fleet.Registry
	settings *engineaddress.ConnectionSettings
}

var _ savedgame.Tokenizer = (*engineTokenizer)(nil)

// tokenizerOf is how this server reaches engines; nil when the keys and certificates for that are not here, as they
// need not be: only workers play.
func tokenizerOf(cfg config.Service, registry *fleet.Registry, log *slog.Logger) *engineTokenizer {
	var listed []string
	for _, e := range cfg.Engines {
		listed = append(listed, e.URL)
	}
	settings, err := engineaddress.NewConnectionSettings(cfg.EngineURLs, cfg.EngineAPIKey.Reveal(), listed, time.Now)
	if err != nil {
		log.Info("turns are shown without the text of their prompts", "error", err)
		return nil
	}
	return &engineTokenizer{registry, settings}
}

// Detokenize is the text of tokens.
func (t *engineTokenizer) Detokenize(ctx context.Context, model string, ids []int32) (text string, err error) {
	err = t.ask(ctx, func(c *vllm.Client) error { text, err = c.Detokenize(ctx, model, ids); return err })
	return text, err
}

// CountTokens is how many tokens the messages of a request have in the model's chat template.
func (t *engineTokenizer) CountTokens(ctx context.Context, req rollout.Request) (n int, err error) {
	err = t.ask(ctx, func(c *vllm.Client) error { n, err = c.CountTokens(ctx, &req); return err })
	return n, err
}

// ask asks ready engines, one after the other, until one answers.
func (t *engineTokenizer) ask(ctx context.Context, question func(*vllm.Client) error) error {
	engines, err := t.registry.List(ctx)
	if err != nil {
		return err
	}
	faults := []error{}
	for _, e := range engines {
		if e.State != enginestate.EngineReady || len(faults) == mostAsked {
			continue
		}
		err := t.askOne(e, question)
		if err == nil {
			return nil
		}
		faults = append(faults, fmt.Errorf("engine %s: %w", e.ID, err))
	}
	if len(faults) == 0 {
		return errors.New("no engine is ready")
	}
	return errors.Join(faults...)
}

func (t *engineTokenizer) askOne(e enginestate.Engine, question func(*vllm.Client) error) error {
	control, err := t.settings.Dial(e.URL)
	if err != nil {
		return err
	}
	client, err := vllm.New(vllm.Config{
		BaseURL: e.URL, Control: control, TLS: t.settings.TLS(e.URL),
		Key: func() string { return t.settings.Key(e.URL, e.Source != "") },
	})
	if err != nil {
		return err
	}
	defer client.Close()
	return question(client)
}
