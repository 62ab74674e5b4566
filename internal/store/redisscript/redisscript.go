// Package redisscript makes Lua scripts that Redis runs whole or not at all, also while a Cluster moves the hash slot
// that they work on. Start reading at New.
package redisscript

import "github.com/redis/go-redis/v9"

// whole refuses a script whose slot is on its way from one node of a Cluster to another, before it has changed
// anything. Redis checks the keys that are declared; a call inside fails, after those before it have worked, when its
// key has left the node or is not there at all; and the node that the slot goes to lets a script that was sent on take
// keys for missing which have not arrived. Only a command with two keys that exist nowhere is refused by both nodes for
// as long as the slot moves, and by no other. Callers try again, as go-redis does several times by itself.
const whole = `do
  local tag = KEYS[1] and string.match(KEYS[1], '{[^}]+}')
  local moving = tag and redis.pcall('EXISTS', tag .. '?1', tag .. '?2')
  if type(moving) == 'table' then
    return redis.error_reply('TRYAGAIN the hash slot of ' .. KEYS[1] .. ' is moved to another node: ' .. moving.err)
  end
end
`

// New makes a script. All keys that it reaches, declared or not, must have the hash tag of its first one; a script
// whose first key has none may reach for that key alone.
func New(text string) *redis.Script { return redis.NewScript(whole + text) }
