package redistest

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// Image is all that a database of Redis held at a moment, but for its streams.
type Image map[string]any

// ImageOf takes an image.
func ImageOf(t testing.TB, rdb redis.UniversalClient) Image {
	t.Helper()
	ctx, image := t.Context(), Image{}
	keys, err := rdb.Keys(ctx, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		switch rdb.Type(ctx, key).Val() {
		case "hash":
			image[key] = rdb.HGetAll(ctx, key).Val()
		case "zset":
			image[key] = rdb.ZRangeWithScores(ctx, key, 0, -1).Val()
		case "set":
			image[key] = rdb.SMembers(ctx, key).Val()
		case "string":
			image[key] = rdb.Get(ctx, key).Val()
		}
	}
	return image
}

// Restore makes the database what it was.
func (image Image) Restore(t testing.TB, rdb redis.UniversalClient) {
	t.Helper()
	if err := rdb.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	image.Put(t, rdb)
}

// Put writes the image's keys, which must not exist.
func (image Image) Put(t testing.TB, rdb redis.UniversalClient) {
	t.Helper()
	ctx := t.Context()
	for key, value := range image {
		var err error
		switch v := value.(type) {
		case map[string]string:
			err = rdb.HSet(ctx, key, v).Err()
		case []redis.Z:
			err = rdb.ZAdd(ctx, key, v...).Err()
		case []string:
			err = rdb.SAdd(ctx, key, v).Err()
		case string:
			err = rdb.Set(ctx, key, v, 0).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
