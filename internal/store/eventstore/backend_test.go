package store_test

import (
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/store/redistest"
)

// onBoth runs a test on the embedded Redis and on a real one, if there is one.
func onBoth(t *testing.T, test func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, newLink(t))
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		test(t, redistest.Real(t))
	})
}

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }
