package api_test

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/buffer"
)

// counted is a store that counts how often it is asked for a batch.
type counted struct {
	*buffer.Store
	looks atomic.Int64
}

func (c *counted) ClaimRaw(ctx context.Context, run rollout.RunName, step rollout.Step,
	generation rollout.TrainerGeneration, share buffer.Share) (*buffer.RawBatch, error) {
	c.looks.Add(1)
	return c.Store.ClaimRaw(ctx, run, step, generation, share)
}

// Claims that wait look when the buffer changes, whichever process has changed it, and else hardly ever.
func TestWaitingClaimsAreWoken(t *testing.T) {
	t.Parallel()
	var store *counted
	following := make(chan bool, 9)
	f := serve(t, func(_ *api.Config, deps *api.Deps) {
		real := deps.Store.(*buffer.Store)
		store = &counted{Store: real}
		deps.Store = store
		deps.Changes = func(ctx context.Context, began func(), changed func(rollout.RunName)) error {
			return real.Follow(ctx, func() { began(); following <- true }, changed)
		}
	})
	f.start()
	<-following

	const ranks = 4
	answers := make(chan int, ranks)
	for range ranks {
		go func() {
			resp, err := http.Post(f.url+"/v1/runs/demo/steps/0/claim?wait=50s", "", http.NoBody)
			if err != nil {
				answers <- 0
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			answers <- resp.StatusCode
		}()
	}
	for store.looks.Load() < ranks+1 { // each has looked, and the first once more
		time.Sleep(time.Millisecond)
	}
	before := store.looks.Load()
	time.Sleep(time.Second)
	if more := store.looks.Load() - before; more > 2 {
		t.Errorf("%d looks in a second in which nothing has changed", more)
	}
	f.ready(0, 1)
	for range ranks {
		if code := <-answers; code != http.StatusOK {
			t.Errorf("a claim is answered %d", code)
		}
	}
}
