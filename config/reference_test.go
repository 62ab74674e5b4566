package config

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/game/diplomacyenv"
	"github.com/millrace/millrace/internal/game/environments"
	"github.com/millrace/millrace/internal/game/external"
	"github.com/millrace/millrace/internal/game/openenv"
	"github.com/millrace/millrace/internal/game/promptset"
	"github.com/millrace/millrace/internal/game/tictactoe"
	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/kit/settings/settingstest"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// TestEveryServiceKeyHasItsRow: a new field of the configuration is documented in the table, or this fails.
func TestEveryServiceKeyHasItsRow(t *testing.T) {
	t.Parallel()
	settingstest.Hold(t, serviceTable, reflect.TypeFor[Service]())
}

// TestReferenceHasEveryOption: the options of environments stand in the same page, by hand, with their defaults.
func TestReferenceHasEveryOption(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/spec.md")
	if err != nil {
		t.Fatal(err)
	}
	defaults := map[string]any{diplomacyenv.Kind: diplomacyenv.DefaultConfig(),
		external.Kind: external.DefaultConfig(),
		openenv.Kind:  openenv.DefaultConfig(), promptset.Kind: promptset.DefaultConfig(),
		runspec.NoGames: struct{}{}, tictactoe.Kind: tictactoe.Config{}}
	for kind := range environments.ValidateOptions() {
		if defaults[kind] == nil {
			t.Errorf("%s: its options are not held to the page: add its defaults to this test", kind)
		}
	}
	for kind, defaults := range defaults {
		_, section, ok := strings.Cut(string(page), "\n### `kind: "+kind+"`\n")
		if !ok {
			t.Errorf("there is nothing about %s", kind)
		}
		section, _, _ = strings.Cut(section, "\n### ")
		data, err := json.Marshal(defaults)
		if err != nil {
			t.Fatal(err)
		}
		var object map[string]any
		if err := json.Unmarshal(data, &object); err != nil {
			t.Fatal(err)
		}
		for path, value := range leaves("", object) {
			text, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			row := fmt.Sprintf("| `%s` | `%s` |", path, strings.Trim(string(text), `"`))
			if value == "" {
				row = fmt.Sprintf("| `%s` | none |", path)
			}
			if !strings.Contains(section, row) {
				t.Errorf("%s: there is no row %q", kind, row)
			}
		}
	}
}

// leaves are the values of an object by their paths.
func leaves(path string, object map[string]any) map[string]any {
	all := map[string]any{}
	for key, value := range object {
		inner, isObject := value.(map[string]any)
		if !isObject {
			all[settings.Join(path, key)] = value
			continue
		}
		for at, v := range leaves(settings.Join(path, key), inner) {
			all[at] = v
		}
	}
	return all
}
