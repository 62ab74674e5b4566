package bufferload

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// counters is what one Redis has counted since it began.
type counters struct {
	MainSec  float64 // processor time of the thread that executes commands
	AllSec   float64 // of the whole process, and of its children: writing and rewriting of the log
	Commands float64
	In, Out  float64 // bytes
	Memory   float64 // bytes that it holds at the moment
}

// read asks a node.
func read(ctx context.Context, node *redis.Client) (counters, error) {
	text, err := node.InfoMap(ctx, "cpu", "stats", "memory").Result()
	if err != nil {
		return counters{}, fmt.Errorf("ask Redis at %s: %w", node.Options().Addr, err)
	}
	all := map[string]string{}
	for _, section := range text {
		for name, value := range section {
			all[name] = value
		}
	}
	var c counters
	sum := func(names ...string) float64 {
		total := 0.0
		for _, name := range names {
			v, err := strconv.ParseFloat(all[name], 64)
			if err != nil {
				return 0 // of another version: the thread is not told apart, say
			}
			total += v
		}
		return total
	}
	c.AllSec = sum("used_cpu_sys", "used_cpu_user", "used_cpu_sys_children", "used_cpu_user_children")
	c.MainSec = sum("used_cpu_sys_main_thread", "used_cpu_user_main_thread")
	if c.MainSec == 0 {
		c.MainSec = c.AllSec
	}
	c.Commands, c.Memory = sum("total_commands_processed"), sum("used_memory")
	c.In, c.Out = sum("total_net_input_bytes"), sum("total_net_output_bytes")
	return c, nil
}

// since is what was counted between two looks; memory is not counted, and stays what it is.
func (c counters) since(before counters) counters {
	c.MainSec -= before.MainSec
	c.AllSec -= before.AllSec
	c.Commands -= before.Commands
	c.In -= before.In
	c.Out -= before.Out
	return c
}
