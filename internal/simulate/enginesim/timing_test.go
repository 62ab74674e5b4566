package enginesim

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/simulate/enginesim/batch"
)

// bubble runs an engine under a fake clock and calls test with a function that sends requests
// straight to its handler.
func bubble(t *testing.T, cfg Config, test func(post func(path, body string) *httptest.ResponseRecorder)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = engine.Run(ctx) }()
		synctest.Wait()
		test(func(path, body string) *httptest.ResponseRecorder {
			defer func() {
				if p := recover(); p != nil && p != http.ErrAbortHandler {
					panic(p)
				}
			}()
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			engine.Handler().ServeHTTP(w, r)
			return w
		})
		stop()
		synctest.Wait()
	})
}

const fortyTokens = `{"prompt": [1,2,3,4,5,6,7,8], "max_tokens": 40, "ignore_eos": true}`

// alone is how long fortyTokens takes by the model, without an adapter.
func alone() time.Duration {
	cost := batch.A100Qwen7B()
	d := cost.Duration(batch.Work{Prefill: 8, Attended: 64})
	for i := range 39 {
		d += cost.Duration(batch.Work{Decoding: 1, KV: 9 + i})
	}
	return d
}

func TestTimeIsTheModelsOverSpeed(t *testing.T) {
	for _, speed := range []float64{1, 20} {
		cfg := fast(func(c *Config) { c.Speed = speed })
		t.Run("", func(t *testing.T) {
			bubble(t, cfg, func(post func(path, body string) *httptest.ResponseRecorder) {
				began := time.Now()
				if w := post("/v1/completions", fortyTokens); w.Code != 200 {
					t.Fatal(w.Body)
				}
				want := time.Duration(float64(alone()) / speed)
				if got := time.Since(began); (got - want).Abs() > time.Millisecond/100 {
					t.Errorf("at speed %g took %v, want %v", speed, got, want)
				}
			})
		})
	}
}

func TestConcurrentRequestsShareSteps(t *testing.T) {
	bubble(t, fast(func(c *Config) { c.Speed = 1 }), func(post func(path, body string) *httptest.ResponseRecorder) {
		began := time.Now()
		var all sync.WaitGroup
		for range 32 {
			all.Go(func() { post("/v1/completions", fortyTokens) })
		}
		all.Wait()
		if got, most := time.Since(began), alone()*5/4; got > most {
			t.Errorf("32 at once took %v, one alone %v", got, alone())
		}
	})
}

func TestColdStartRefuses(t *testing.T) {
	bubble(t, fast(func(c *Config) {
		c.ColdStart, c.Speed = 10*time.Second, 2
	}), func(post func(path, body string) *httptest.ResponseRecorder) {
		time.Sleep(5*time.Second - time.Millisecond)
		if w := post("/v1/completions", fortyTokens); w != nil {
			t.Errorf("answered %d during the cold start", w.Code)
		}
		time.Sleep(time.Millisecond)
		if w := post("/v1/completions", fortyTokens); w == nil || w.Code != 200 {
			t.Error("not answered after the cold start")
		}
	})
}
