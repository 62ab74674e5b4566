package fleet

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// SaveNote keeps what another part of the service tells of the fleet, under a name, in the place of what was there.
func (r *Registry) SaveNote(ctx context.Context, name string, text []byte) error {
	return redisError("save what "+name+" tells", r.rdb.Set(ctx, r.noteKey(name), text, 0).Err())
}

// Note reads the note under a name; nil: there is none.
func (r *Registry) Note(ctx context.Context, name string) ([]byte, error) {
	text, err := r.rdb.Get(ctx, r.noteKey(name)).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return text, redisError("read what "+name+" tells", err)
}

func (r *Registry) noteKey(name string) string { return r.prefix + name }
