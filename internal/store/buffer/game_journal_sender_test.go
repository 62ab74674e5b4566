package buffer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/store/buffer/pack"
)

// TestAnAnswerIsSentBeforeLong: an answer that came more than 10 ms before the death of its process is kept.
func TestAnAnswerIsSentBeforeLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rdb, sent := redis.NewClient(&redis.Options{}), make(pipelines, 1)
		defer func() { _ = rdb.Close() }()
		rdb.AddHook(sent)
		j := &journal{store: New(rdb, Options{}), writer: new(pack.JournalWriter), based: true}
		came := time.Now()
		if err := j.Answer("FRANCE", Answer{}); err != nil {
			t.Fatal(err)
		}
		if waited := (<-sent).Sub(came); waited > 10*time.Millisecond {
			t.Errorf("it is sent after %v", waited)
		}
	})
}

// pipelines hears when a client sends one, and sends none.
type pipelines chan time.Time

func (p pipelines) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (p pipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (p pipelines) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error {
		p <- time.Now()
		return nil
	}
}
