package redisserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"
)

// reply is what Redis answers in place of doing what it was asked to.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestOutage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want string
	}{
		{reply("MISCONF Errors writing to the AOF file: No space left on device"),
			"Redis takes no writes: MISCONF Errors writing to the AOF file: No space left on device"},
		{reply("OOM command not allowed"), "Redis takes no writes: OOM command not allowed"},
		{fmt.Errorf("write: %w", reply("READONLY a replica")), "Redis takes no writes: READONLY a replica"},
		{reply("WRONGPASS invalid"), "Redis refuses the service's login: WRONGPASS invalid"},
		{reply("LOADING its log"), "Redis is not ready: LOADING its log"},
		{reply("ERR max number of clients reached"), "Redis is not ready: ERR max number of clients reached"},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, "Redis does not answer"},
		{io.EOF, "Redis does not answer"},
		{redis.ErrPoolTimeout, "Redis does not answer"},
		{redis.Nil, ""},
		{reply("WRONGTYPE of a key"), ""},
		{context.Canceled, ""},
	} {
		if got := Outage(tt.err); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.err, got, tt.want)
		}
	}
}
