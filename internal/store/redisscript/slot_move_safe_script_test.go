package redisscript_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/store/redisscript"
	"github.com/millrace/millrace/internal/store/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// A script that reaches for keys it does not declare, some of which are not there yet, is run whole or not at all while
// its slot goes from node to node: afterwards each of its parts has happened equally often, and as often as it said.
func TestScriptIsRunWholeWhileItsSlotMoves(t *testing.T) {
	t.Parallel()
	nodes := redistest.Masters(t, 2)
	const key = "x:{run}:a"
	script := redisscript.New(`local base = string.sub(KEYS[1], 1, -2)
local n = redis.call('INCR', KEYS[1])
redis.call('RPUSH', base .. 'list', n)
redis.call('SET', base .. 'new:' .. n, n)
redis.call('DEL', base .. 'last')
redis.call('SET', base .. 'last', n)
return n`)
	ctx, stop := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	var mu sync.Mutex
	worked, refused := 0, 0
	call := func() {
		err := script.Run(context.Background(), nodes.Client, []string{key}).Err()
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			worked++
		case redis.HasErrorPrefix(err, "TRYAGAIN"), redis.HasErrorPrefix(err, "ASK"), redis.HasErrorPrefix(err, "MOVED"):
			refused++
		default:
			t.Errorf("neither worked nor to be tried again: %v", err)
		}
	}
	for range 4 {
		calls.Go(func() {
			for ctx.Err() == nil {
				call()
			}
		})
	}
	standing := func() int {
		mu.Lock()
		defer mu.Unlock()
		return worked
	}
	for range 4 {
		nodes.Move(t, key, func(int) { call() })
		// However slow the machine is, some calls meet the slot at rest between two moves.
		for before := standing(); standing() < before+3 && !t.Failed(); {
			call()
		}
	}
	stop()
	calls.Wait()
	call()
	if worked < 10 || refused < 4 {
		t.Errorf("%d calls worked and %d were refused: nothing is proved", worked, refused)
	}
	count, err := nodes.Client.Get(t.Context(), key).Int()
	length, err2 := nodes.Client.LLen(t.Context(), "x:{run}:list").Result()
	last, err3 := nodes.Client.Get(t.Context(), "x:{run}:last").Int()
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	if count != worked || int(length) != worked || last != worked {
		t.Errorf("%d calls worked; counted %d, listed %d, the last is %d", worked, count, length, last)
	}
	for n := 1; n <= worked; n++ {
		if got := nodes.Client.Get(t.Context(), fmt.Sprintf("x:{run}:new:%d", n)).Val(); got != fmt.Sprint(n) {
			t.Fatalf("call %d has left %q", n, got)
		}
	}
}
