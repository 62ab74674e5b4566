package workerregistry_test

import (
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/workerregistry"
)

func TestWorkersComeAndGo(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	now := time.Unix(1000, 0)
	r := workerregistry.New(newRedis(t), "test", func() time.Time { return now })
	for _, w := range []string{"w2", "w1"} {
		if err := r.Announce(ctx, w, 10*time.Second); err != nil {
			t.Fatal(err)
		}
		if err := r.ReportQueue(ctx, w, 5); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := r.Alive(ctx); !slices.Equal(got, []string{"w1", "w2"}) {
		t.Errorf("workers %v", got)
	}
	now = now.Add(6 * time.Second)
	if err := r.Announce(ctx, "w1", 10*time.Second); err != nil {
		t.Fatal(err)
	}
	now = now.Add(6 * time.Second)
	if got, _ := r.Alive(ctx); !slices.Equal(got, []string{"w1"}) {
		t.Errorf("workers %v after one fell silent", got)
	}
	if n, err := r.Queued(ctx); n != 5 || err != nil {
		t.Errorf("queued %d, %v", n, err)
	}
	if err := r.Leave(ctx, "w1"); err != nil {
		t.Fatal(err)
	}
	if got, _ := r.Alive(ctx); len(got) != 0 {
		t.Errorf("workers %v after the last left", got)
	}
}
