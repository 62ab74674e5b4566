package sim

import (
	"reflect"
	"testing"
)

// TestEveryKeyOfASetupHasItsRow: a new field of a setup is documented in the table, or this fails.
func TestEveryKeyOfASetupHasItsRow(t *testing.T) {
	t.Parallel()
	Table().Holds(t.Errorf, reflect.TypeFor[Setup]())
}
