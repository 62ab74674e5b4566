package connections

import (
	"os"
	"testing"

	"github.com/millrace/millrace/internal/store/spool/spooltest"
)

func TestMain(m *testing.M) { os.Exit(spooltest.Main(m)) }
