// Package browsersession keeps in Redis which browsers are logged in to the page, for all servers of a deployment. A
// session is a random id. Redis holds only its digest and the digest of its token: a reader of Redis can neither take
// over a session nor learn a token. Start reading at Store.
package browsersession

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Digest is the SHA-256 of a token.
type Digest = [sha256.Size]byte

// Store is the sessions of a deployment.
type Store struct {
	Redis  redis.UniversalClient
	Prefix string
}

func (s Store) key(id string) string {
	sum := sha256.Sum256([]byte(id))
	return s.Prefix + ":session:" + hex.EncodeToString(sum[:])
}

// Begin begins a session with a token, which ends by itself after its age.
func (s Store) Begin(ctx context.Context, token Digest, age time.Duration) (id string, err error) {
	id = rand.Text()
	if err := s.Redis.Set(ctx, s.key(id), token[:], age).Err(); err != nil {
		return "", fmt.Errorf("begin a session: %w", err)
	}
	return id, nil
}

// Token is the token that a session was begun with; false: there is no such session, or not any more.
func (s Store) Token(ctx context.Context, id string) (token Digest, found bool, err error) {
	kept, err := s.Redis.Get(ctx, s.key(id)).Bytes()
	switch {
	case errors.Is(err, redis.Nil):
		return token, false, nil
	case err != nil:
		return token, false, fmt.Errorf("look a session up: %w", err)
	}
	return token, copy(token[:], kept) == len(token), nil
}

// End ends a session, if it goes on.
func (s Store) End(ctx context.Context, id string) error {
	if err := s.Redis.Del(ctx, s.key(id)).Err(); err != nil {
		return fmt.Errorf("end a session: %w", err)
	}
	return nil
}
