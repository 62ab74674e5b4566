package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/kit/panics"
)

const age = 3 * time.Second

// A value is made once for all who ask meanwhile: and again when it is not that of now, when it is old, or when it
// failed.
func TestAValueIsMadeOnceForAllWhoAskMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type value struct{ made, of int }
		made, of := 0, 1
		var fails error
		c := Cache[string, value]{Timeout: time.Minute, Most: 128}
		produce := func(context.Context) (value, error) {
			made++
			time.Sleep(time.Second)
			return value{made, of}, fails
		}
		fresh := func(m Made[value]) bool { return m.Value.of == of && Younger[value](age)(m) }
		ask := func() {
			if _, err := c.Of(t.Context(), "demo", fresh, produce); err != nil {
				t.Error(err)
			}
		}
		for range 60 {
			go ask()
		}
		synctest.Wait()
		if got, err := c.Latest(t.Context(), "demo", fresh, time.Millisecond, produce); got.made != 0 || err != nil {
			t.Errorf("before there is one: %v, %v", got, err)
		}
		time.Sleep(2 * time.Second)
		if ask(); made != 1 {
			t.Errorf("made %d times for 61 who asked", made)
		}
		of = 2
		if ask(); made != 2 {
			t.Errorf("made %d times after what it is of has changed", made)
		}
		time.Sleep(age)
		if got, err := c.Latest(t.Context(), "demo", fresh, time.Millisecond, produce); got.made != 2 || err != nil {
			t.Errorf("while the next one is made, who watches is shown %v, %v", got, err)
		}
		if ask(); made != 3 {
			t.Errorf("made %d times when the last one was old", made)
		}
		fails = errors.New("none")
		for range 2 {
			if _, err := c.Of(t.Context(), "other", fresh, produce); err == nil {
				t.Error("a failure is lost")
			}
		}
		if made != 5 {
			t.Errorf("made %d times: a failure is kept", made)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Of(gone, "third", fresh, produce); err == nil {
			t.Error("who has gone is given a value")
		}
		time.Sleep(2 * time.Second) // It is made all the same.
	})
}

// A value that is made again and again weighs once: the cache is as heavy as what it holds, and keeps the others.
func TestValuesThatAreReplacedDoNotWeigh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := Cache[string, int]{Timeout: time.Minute, Most: 32 << 20, Weigh: func(size int) int { return size }}
		times := map[string]int{}
		make := func(key string, size int) {
			t.Helper()
			_, err := c.Of(t.Context(), key, Younger[int](age), func(context.Context) (int, error) {
				times[key]++
				return size, nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		for range 40 {
			make("large", 1<<20)
			time.Sleep(2 * age)
		}
		make("other", 1)
		if c.weight != 1<<20+1 || len(c.by) != 2 {
			t.Errorf("%d values weigh %d", len(c.by), c.weight)
		}
		for i := range 33 {
			make(fmt.Sprint(i), 1<<20)
		}
		make("last", 1)
		if c.weight > c.Most+1<<20 {
			t.Errorf("what is held weighs %d", c.weight)
		}
		if times["large"] != 40 {
			t.Errorf("made %d times", times["large"])
		}
	})
}

// What is forgotten is made anew, and what was being made meanwhile is not kept.
func TestForget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := Cache[string, int]{Timeout: time.Minute, Most: 10}
		made := 0
		ask := func() int {
			got, err := c.Of(t.Context(), "a", Younger[int](age), func(context.Context) (int, error) {
				made++
				is := made
				time.Sleep(time.Second)
				return is, nil
			})
			if err != nil {
				t.Error(err)
			}
			return got
		}
		go ask()
		synctest.Wait()
		c.Forget("a")
		if got := ask(); got != 2 || c.weight != 1 {
			t.Errorf("given %d, weighing %d", got, c.weight)
		}
		if c.ForgetAll(); ask() != 3 || c.weight != 1 {
			t.Errorf("made %d times, weighing %d", made, c.weight)
		}
	})
}

// A value is made in a goroutine of its own, where nobody else would recover: it fails for who asked alone.
func TestAPanicIsAFailure(t *testing.T) {
	t.Parallel()
	counted := ""
	c := Cache[string, int]{Name: "page", Timeout: time.Minute, Most: 1, Panics: panics.Watch{
		Log: slog.New(slog.DiscardHandler), Count: func(in string) { counted += in }}}
	_, err := c.Of(t.Context(), "a", Younger[int](age), func(context.Context) (int, error) { panic("a record breaks it") })
	if !errors.Is(err, panics.ErrBroken) || counted != "page" {
		t.Errorf("%v, counted %q", err, counted)
	}
}
