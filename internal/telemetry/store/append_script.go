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

// Lua is what a script needs that writes facts in the same instant as it makes them true: the functions tell,
// tell_once and fill of append.lua, with the usual bounds. The script must have a local named base, where the keys of
// the run or of the fleet begin.
func Lua() string { return Limits{}.withDefaults().lua() }

// lua is append.lua with these bounds.
func (l Limits) lua() string {
	var bounds strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(l.Kinds)) {
		fmt.Fprintf(&bounds, "[%q]=%d,", kind, l.Kinds[kind].Unshipped)
	}
	return fmt.Sprintf("local RECENT, BOUNDS = %d, {%s}\n%s", l.Recent, bounds.String(), appendLua)
}
