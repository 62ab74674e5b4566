package store

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
)

//go:embed append.lua
var appendLua string

// Lua is the Lua code for a script that writes facts in the instant in which it makes them true: the functions tell,
// tell_once and fill of append.lua, with the usual bounds. The script must have a local named base, the prefix of the
// keys of the run or the fleet.
func Lua() string { return Limits{}.withDefaults().lua() }

// Lua is the same for a script whose first key is the latest events of its scope, with the bounds of a store.
func (l Limits) Lua() string { return "local base = string.sub(KEYS[1], 1, -7)\n" + l.lua() }

func (l Limits) lua() string {
	var bounds strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(l.Kinds)) {
		fmt.Fprintf(&bounds, "[%q]=%d,", kind, l.Kinds[kind].Unshipped)
	}
	return fmt.Sprintf("local RECENT, BOUNDS = %d, {%s}\n%s", l.Recent, bounds.String(), appendLua)
}

// appendBody adds events to a scope. KEYS: the latest events. ARGV: for each event a flag, the kind and the JSON.
const appendBody = `
for i = 1, #ARGV, 3 do
  if ARGV[i] == 'fact' then
    tell_once(ARGV[i+2])
  else
    write_event('s', ARGV[i+1], ARGV[i+2])
  end
end
return 1`
