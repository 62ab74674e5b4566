package redisserver

import (
	"errors"
	"io"
	"net"

	"github.com/redis/go-redis/v9"
)

// refusals are replies of a Redis that is there and will serve again, by their first word.
var refusals = []struct {
	means   string
	replies []string
}{
	{"Redis takes no writes", []string{"MISCONF", "OOM", "NOREPLICAS", "READONLY"}},
	{"Redis refuses the service's login", []string{"NOAUTH", "WRONGPASS", "NOPERM"}},
	{"Redis is not ready", []string{"LOADING", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "BUSY", "ASK", "MOVED",
		"max number of clients"}},
}

// Outage says what is wrong with a Redis that does not do what it was asked to and may do it later, with its own words
// if it said any: a full disk, for instance. It is empty for any other error.
func Outage(err error) string {
	var reply redis.Error
	if errors.As(err, &reply) {
		for _, refusal := range refusals {
			for _, word := range refusal.replies {
				if redis.HasErrorPrefix(reply, word) {
					return refusal.means + ": " + reply.Error()
				}
			}
		}
	}
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, redis.ErrPoolTimeout) {
		return "Redis does not answer"
	}
	return ""
}
