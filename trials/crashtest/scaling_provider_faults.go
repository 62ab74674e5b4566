package crashtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/millrace/millrace/internal/kit/filelock"
)

// starter is the script that starts engines that are bought, and broken the file with which it does not.
func (b *boughtEngines) starter() string { return b.dir + "-starter" }
func (b *boughtEngines) broken() string  { return b.dir + "-broken" }

func (b *boughtEngines) writeStarter() error {
	script := fmt.Sprintf("[ -e %q ] && { sleep 0.5; echo 'no accelerator answers'; exit 3; }\nexec \"$@\"\n", b.broken())
	return os.WriteFile(b.starter(), []byte(script), 0o600)
}

// failStarts has engines bought that end in their cold start, until it is taken back.
func (in *injector) failStarts(ctx context.Context, f Fault) (back func(), err error) {
	file := in.service.bought.broken()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return nil, err
	}
	if err := in.wantMore(ctx, f); err != nil {
		return nil, errors.Join(err, os.Remove(file))
	}
	return func() {
		if err := os.Remove(file); err != nil {
			in.complain("engines cannot be started any more: %v", err)
		}
	}, nil
}

// stopProvider keeps the provider from listing engines while some are given back, or bought where there are none: it
// cannot read one of its orders, or somebody has its lock and does not come back.
func (in *injector) stopProvider(ctx context.Context, f Fault) (back func(), err error) {
	stop := in.service.bought.spoilOrders
	if f.Kind == HangProvider {
		stop = in.service.bought.takeLock
	}
	change := in.wantFewer(ctx, f)
	if change != nil {
		change = in.wantMore(ctx, f)
	}
	if change != nil {
		return nil, change
	}
	again, err := stop(ctx)
	if err != nil {
		return nil, err
	}
	return func() {
		if err := again(); err != nil {
			in.complain("the provider is not as it was: %v", err)
		}
	}, nil
}

// takeLock holds the lock without which the provider does nothing.
func (b *boughtEngines) takeLock(ctx context.Context) (again func() error, err error) {
	unlock, err := filelock.Lock(ctx, filepath.Join(b.dir, "lock"))
	if err != nil {
		return nil, err
	}
	return func() error {
		unlock()
		return nil
	}, nil
}

// spoilOrders puts an order among the provider's whose lock is no file, so that it can list none of them.
func (b *boughtEngines) spoilOrders(context.Context) (again func() error, err error) {
	const id = "spoiled-1"
	deployments, err := filepath.Glob(filepath.Join(b.dir, "*", ""))
	if err != nil {
		return nil, err
	}
	aside := b.dir + "-" + id
	text, err := json.Marshal(map[string]string{"id": id, "nonce": id})
	if err != nil {
		return nil, err
	}
	err = errors.Join(os.RemoveAll(aside), os.MkdirAll(filepath.Join(aside, "lock"), 0o700),
		os.WriteFile(filepath.Join(aside, "order.json"), text, 0o600))
	if err != nil {
		return nil, err
	}
	for _, dir := range deployments {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() || strings.HasPrefix(filepath.Base(dir), ".") {
			continue
		}
		there := filepath.Join(dir, id)
		return func() error { return errors.Join(os.Rename(there, aside), os.RemoveAll(aside)) }, os.Rename(aside, there)
	}
	return nil, errors.New("the provider has no orders yet")
}
