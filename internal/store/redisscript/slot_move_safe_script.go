// Package redisscript makes Lua scripts that Redis runs whole or not at all, also while a Cluster moves the hash slot
// that they work on. Start reading at New.
package redisscript

import "github.com/redis/go-redis/v9"

// whole refuses a script, before it changes anything, while its slot moves between nodes of a Cluster. Redis checks
// only declared keys. A call inside fails halfway when its key has left the node or does not exist, and the new node
// lets a redirected script take keys for missing that have not arrived yet. Only a command with two keys that exist
// nowhere is refused by both nodes as long as the slot moves, and by no other. Callers try again, as go-redis does
// several times by itself.
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
