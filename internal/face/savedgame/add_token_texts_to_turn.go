package savedgame

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/game/gamelist"
	"github.com/millrace/millrace/internal/rollout"
)

// Tokenizer writes token ids as the text that they stand for. It asks an engine.
type Tokenizer interface {
	Detokenize(ctx context.Context, model string, ids []int32) (string, error)
}

const (
	// textPatience is how long the text of a turn is waited for.
	textPatience = 3 * time.Second
	// mostPieces is how many tokens of a completion are written one by one, and piecesAtOnce how many at a time.
	mostPieces   = 512
	piecesAtOnce = 8
)

// addText adds the texts of a turn's tokens, if an engine can decode them; a turn is shown without, too.
func (r *Reader) addText(ctx context.Context, run rollout.RunName, t *gamelist.Turn) {
	if r.Tokenizer == nil {
		t.NoPrompt = "this server asks no engine for the text of tokens"
		return
	}
	status, err := r.Buffer.Status(ctx, run)
	if err != nil {
		t.NoPrompt = err.Error()
		return
	}
	ctx, cancel := context.WithTimeout(ctx, textPatience)
	defer cancel()
	prompt, err := r.Tokenizer.Detokenize(ctx, status.Spec.Model, t.PromptTokenIDs)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no engine answered within %v", textPatience)
		}
		t.NoPrompt = err.Error()
		return
	}
	t.Prompt = &prompt
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(piecesAtOnce)
	known := map[int32]*string{}
	for i := range t.Sampled[:min(len(t.Sampled), mostPieces)] {
		if id := t.Sampled[i].ID; known[id] == nil {
			known[id] = new(string)
			piece := known[id]
			g.Go(func() (err error) {
				*piece, err = r.Tokenizer.Detokenize(ctx, status.Spec.Model, []int32{id})
				return err
			})
		}
	}
	if g.Wait() != nil {
		return // the text as a whole is there
	}
	for i := range t.Sampled {
		t.Sampled[i].Text = known[t.Sampled[i].ID]
	}
}
