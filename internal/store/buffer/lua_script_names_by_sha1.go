package buffer

import (
	"maps"

	"github.com/redis/go-redis/v9"
)

// named is the name of each script by its SHA1, by which Redis knows it.
var named = map[string]string{}

// ScriptNames is the names of the buffer's scripts by their SHA1: who watches Redis sees nothing else of them.
func ScriptNames() map[string]string { return maps.Clone(named) }

// remember notes a script's name.
func remember(name string, s *redis.Script) *redis.Script {
	named[s.Hash()] = name
	return s
}
