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

	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// mostAsked is how many engines are asked for the text of tokens before it is left out.
const mostAsked = 3

// engineTokenizer has a ready engine write tokens as text, for people who look at a turn.
type engineTokenizer struct {
	registry *fleet.Registry
	settings *engineaddress.ConnectionSettings
}

var _ savedgame.Tokenizer = engineTokenizer{}

// tokenizerOf is how this server reaches engines; nil when the keys and certificates for that are not here, as they
// need not be: only workers play.
func tokenizerOf(cfg config.Service, registry *fleet.Registry, log *slog.Logger) savedgame.Tokenizer {
	var listed []string
	for _, e := range cfg.Engines {
		listed = append(listed, e.URL)
	}
	settings, err := engineaddress.NewConnectionSettings(cfg.EngineURLs, cfg.EngineAPIKey.Reveal(), listed, time.Now)
	if err != nil {
		log.Info("turns are shown without the text of their prompts", "error", err)
		return nil
	}
	return engineTokenizer{registry, settings}
}

// Detokenize asks ready engines, one after the other, until one answers.
func (t engineTokenizer) Detokenize(ctx context.Context, model string, ids []int32) (string, error) {
	engines, err := t.registry.List(ctx)
	if err != nil {
		return "", err
	}
	faults := []error{}
	for _, e := range engines {
		if e.State != enginestate.EngineReady || len(faults) == mostAsked {
			continue
		}
		text, err := t.ask(ctx, e, model, ids)
		if err == nil {
			return text, nil
		}
		faults = append(faults, fmt.Errorf("engine %s: %w", e.ID, err))
	}
	if len(faults) == 0 {
		return "", errors.New("no engine is ready")
	}
	return "", errors.Join(faults...)
}

func (t engineTokenizer) ask(ctx context.Context, e enginestate.Engine, model string, ids []int32) (string, error) {
	control, err := t.settings.Dial(e.URL)
	if err != nil {
		return "", err
	}
	client, err := vllm.New(vllm.Config{
		BaseURL: e.URL, Control: control, TLS: t.settings.TLS(e.URL),
		Key: func() string { return t.settings.Key(e.URL, e.Source != "") },
	})
	if err != nil {
		return "", err
	}
	defer client.Close()
	return client.Detokenize(ctx, model, ids)
}
