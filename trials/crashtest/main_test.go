package crashtest_test

import (
	"flag"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "3") // each schedule has a service of its own, and waits most of its time
	os.Exit(m.Run())
}
