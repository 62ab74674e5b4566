package worker

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/worker/workerconfig"
)

// joined is a fleet that engines join.
type joined struct {
	mu  sync.Mutex
	all []string
}

func (j *joined) Members(context.Context) ([]fleet.Member, error) { return nil, nil }

func (j *joined) Remove(context.Context, rollout.EngineID, bool) error { return nil }

func (j *joined) AddListed(_ context.Context, e enginestate.Engine, _ string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.all = append(j.all, e.URL)
	return nil
}

// take is who has joined since it was asked last.
func (j *joined) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	defer func() { j.all = nil }()
	slices.Sort(j.all)
	return slices.Compact(j.all)
}

// TestAnotherListOfEngines: the fleet follows the list that the configuration names now, if it names one.
func TestAnotherListOfEngines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"first": "http://127.0.0.1:1\n", "second": "http://127.0.0.1:2\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var named atomic.Value // the list that the configuration names
		named.Store("")
		ctx, end := context.WithCancel(t.Context())
		fleet := &joined{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			followedList{
				current:  func() workerconfig.Config { return workerconfig.Config{EnginesFrom: named.Load().(string)} },
				registry: fleet, complain: func(err error) { t.Error(err) },
			}.follow(ctx)
		}()
		for _, tt := range []struct {
			list string
			want []string
		}{
			{"", nil},
			{"file:" + dir + "/first", []string{"http://127.0.0.1:1"}},
			{"file:" + dir + "/second", []string{"http://127.0.0.1:2"}},
			{"", nil},
		} {
			named.Store(tt.list)
			time.Sleep(5 * time.Second) // in the bubble: until the change has been noticed
			synctest.Wait()
			fleet.take()
			time.Sleep(30 * time.Second)
			synctest.Wait()
			if got := fleet.take(); !slices.Equal(got, tt.want) {
				t.Errorf("with the list %q %v have joined, want %v", tt.list, got, tt.want)
			}
		}
		end()
		<-done
	})
}
