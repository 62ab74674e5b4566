package store_test

import (
	"os"
	"testing"

	"github.com/redis/go-redis/v9/logging"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis reports every failed dial, and tests wait for servers to come up
	code := m.Run()
	if server.stop != nil {
		server.stop()
	}
	os.Exit(code)
}
