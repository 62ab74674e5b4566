package filelock

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"
)

func TestOneHolderAtATime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := Lock(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second holder: %v", err)
	}
	released := make(chan error)
	go func() { released <- AwaitRelease(path) }()
	select {
	case <-released:
		t.Error("released while it is held")
	case <-time.After(30 * time.Millisecond):
	}
	unlock()
	if err := <-released; err != nil {
		t.Error(err)
	}
	again, err := Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

func TestSharedByMany(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	held := func(want bool, when string) {
		t.Helper()
		if got, err := IsHeld(path); err != nil || got != want {
			t.Errorf("%s: held is %t (%v)", when, got, err)
		}
	}
	held(false, "before it is there")
	first, err := Share(path)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Share(path)
	if err != nil {
		t.Fatal(err)
	}
	held(true, "by two")
	first()
	held(true, "by one")
	second()
	held(false, "in the end")
}
