package worker

import (
	"flag"
	"os"
	"testing"

	"github.com/millrace/millrace/internal/store/spool/spooltest"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "4") // each has a service of its own, and waits most of its time
	os.Exit(spooltest.Main(m))
}
