package buffer_test

import (
	"os"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/store/redistest"
)

// onBoth runs a test on the embedded Redis and on a real one.
func onBoth(t *testing.T, test func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, embedded(t))
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		test(t, redistest.Real(t))
	})
}

func embedded(t testing.TB) redis.UniversalClient {
	t.Helper()
	return redistest.Client(t, miniredis.RunT(t).Addr(), 0)
}

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }
