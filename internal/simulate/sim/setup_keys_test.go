package sim

import (
	"reflect"
	"testing"

	"github.com/millrace/millrace/internal/kit/settings/settingstest"
)

// TestEveryKeyOfASetupHasItsRow: a new field of a setup is documented in the table, or this fails.
func TestEveryKeyOfASetupHasItsRow(t *testing.T) {
	t.Parallel()
	settingstest.Hold(t, Table(), reflect.TypeFor[Setup]())
}
