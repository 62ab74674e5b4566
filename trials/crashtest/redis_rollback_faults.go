package crashtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/kit/freeport"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/trials/stack"
)

// older is what a node of Redis will come up with.
type older struct {
	node redisNode
	dir  string // of its log
	kept string // the folder that will be in its place
	size int64  // of the end of its log when the fault began
	log  string // name of that end
}

// putRedisBack remembers what the node of Redis that has the run's account holds. Taken back, the node is killed and
// comes up with that: with its log as it was, as a backup has it; with its log cut at an arbitrary byte written since,
// as after a power cut; or with a snapshot alone.
func (in *injector) putRedisBack(ctx context.Context, f Fault) (back func(), err error) {
	b, err := in.beforeRollback(ctx)
	if err != nil {
		return nil, err
	}
	node, err := in.service.masterOf(ctx, b.p)
	if err == nil && f.Kind == StaleNode {
		other, fault := in.service.otherMaster(ctx, node, rand.New(rand.NewPCG(uint64(f.Chance), 0x57A1)))
		err = errors.Join(fault, node.Close())
		node = other
	}
	if err != nil {
		return nil, err
	}
	o := older{node: node, dir: filepath.Join(in.service.dir(node), "appendonlydir")}
	o.kept = o.dir + ".older"
	if err := in.remember(ctx, f.Kind, &o); err != nil {
		return nil, errors.Join(err, node.Close())
	}
	return func() {
		defer node.Close()
		in.awaitSomethingTold(ctx, b.p, b.serial)
		if f.Kind == StaleNode {
			if _, err := in.comeBack(ctx, f, o, b.p); err != nil && ctx.Err() == nil {
				in.complain("put %s back: %v", node.name, err)
			}
			return // the account has lost nothing: the run must go on
		}
		serial, err := in.leaveNote(ctx, &b)
		if err != nil {
			in.service.say("  %s does not come back older: %v", node.name, err)
			return
		}
		kept, err := in.comeBack(ctx, f, o, b.p)
		if err != nil && ctx.Err() != nil {
			in.service.say("  %s does not come back older: the time for faults is over", node.name)
			return
		}
		if err != nil {
			in.complain("put %s back: %v", node.name, err)
			return
		}
		in.noticed(ctx, b, serial > kept)
		if f.Kind == TornRedis {
			in.awaitLogRewritten(ctx, b, node)
		}
	}, nil
}

// awaitLogRewritten waits until the log that was torn is replaced: until then Redis would do half of a transaction when
// it is restarted once more.
func (in *injector) awaitLogRewritten(ctx context.Context, b before, node redisNode) {
	err := stack.Await(ctx, in.service.cfg.patient(noticedWithin), func(ctx context.Context) error {
		info, err := node.Info(ctx, "persistence").Result()
		if err == nil && strings.Contains(info, "aof_rewrites:0") && in.watch.current().label() == b.p.label() {
			err = errors.New("no rewrite of its log has begun")
		}
		if err == nil && !strings.Contains(info, "aof_rewrite_in_progress:0") {
			err = errors.New("its log is still rewritten")
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		in.complain("%s: %s came back with a torn log: %v", b.p.label(), node.name, err)
	}
}

// remember keeps what is known already of what the node will come up with.
func (in *injector) remember(ctx context.Context, kind Kind, o *older) (err error) {
	if err := errors.Join(os.RemoveAll(o.kept), os.RemoveAll(o.dir+".gone")); err != nil {
		return err
	}
	switch kind {
	case TornRedis:
		o.log, o.size, err = endOfLog(o.dir)
		return err
	case SnapshotRedis:
		return in.snapshot(ctx, o)
	}
	return os.CopyFS(o.kept, os.DirFS(o.dir))
}

// snapshot has the node save all it holds, and makes of that alone what it will come up with.
func (in *injector) snapshot(ctx context.Context, o *older) error {
	last, err := o.node.LastSave(ctx).Result()
	if err != nil {
		return err
	}
	if err := retry.Pause(ctx, time.Until(time.Unix(last+1, 0))); err != nil { // it is told by its second
		return err
	}
	if err := o.node.BgSave(ctx).Err(); err != nil {
		return fmt.Errorf("have %s save a snapshot: %w", o.node.name, err)
	}
	err = stack.Await(ctx, 20*time.Second, func(ctx context.Context) error {
		now, err := o.node.LastSave(ctx).Result()
		if err == nil && now <= last {
			err = errors.New("no snapshot yet")
		}
		return err
	})
	if err != nil {
		return err
	}
	rdb, err := os.ReadFile(filepath.Join(in.service.dir(o.node), "dump.rdb"))
	if err != nil {
		return err
	}
	manifest := "file appendonly.aof.1.base.rdb seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n"
	return errors.Join(os.MkdirAll(o.kept, 0o755),
		os.WriteFile(filepath.Join(o.kept, "appendonly.aof.1.base.rdb"), rdb, 0o644),
		os.WriteFile(filepath.Join(o.kept, "appendonly.aof.1.incr.aof"), nil, 0o644),
		os.WriteFile(filepath.Join(o.kept, "appendonly.aof.manifest"), []byte(manifest), 0o644))
}

// endOfLog is the file that a node appends to, and how long it is.
func endOfLog(dir string) (name string, size int64, err error) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return "", 0, err
	}
	var newest fs.FileInfo
	for _, entry := range all {
		info, err := entry.Info()
		if err == nil && strings.HasSuffix(entry.Name(), ".incr.aof") &&
			(newest == nil || info.ModTime().After(newest.ModTime())) {
			newest = info
		}
	}
	if newest == nil {
		return "", 0, fmt.Errorf("%s holds no log", dir)
	}
	return newest.Name(), newest.Size(), nil
}

// comeBack kills the node and has it come up with what it is to hold, and answers how far the account has come there.
func (in *injector) comeBack(ctx context.Context, f Fault, o older, p plan) (serial int64, err error) {
	if f.Kind == TornRedis {
		if err := in.signal(o.node.name, syscall.SIGSTOP); err != nil {
			return 0, err
		}
		defer func() { _ = in.signal(o.node.name, syscall.SIGCONT) }() // if it was not killed
		if err := o.tear(f.Chance); err != nil {
			return 0, err
		}
	}
	if serial, err = in.service.serialIn(ctx, o.kept, p); err != nil {
		return 0, err
	}
	// The node goes on writing to files that nobody will find again.
	if err := errors.Join(os.Rename(o.dir, o.dir+".gone"), os.Rename(o.kept, o.dir)); err != nil {
		return 0, err
	}
	if err := in.signal(o.node.name, syscall.SIGKILL); err != nil {
		in.service.say("  %s was dead already: %v", o.node.name, err)
	}
	return serial, nil
}

// tear copies the log and cuts the copy at a byte that was written since the fault began.
func (o *older) tear(chance int) error {
	if err := os.CopyFS(o.kept, os.DirFS(o.dir)); err != nil {
		return err
	}
	name, size, err := endOfLog(o.kept)
	if err != nil {
		return err
	}
	from := o.size
	if _, err := os.Stat(filepath.Join(o.kept, o.log)); err != nil || name != o.log || from > size {
		from = 0 // it has begun another file
	}
	const most = 1 << 16 // of a chance
	at := from + (size-from)*int64(chance%most)/most
	return os.Truncate(filepath.Join(o.kept, name), at)
}

// serialIn is how far the run's account has come in what a node will come up with, as a Redis says that is started on a
// copy. 0: the run is not known there.
func (s *service) serialIn(ctx context.Context, dir string, p plan) (int64, error) {
	at, err := os.MkdirTemp(s.cfg.Dir, "look-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(at)
	if err := os.CopyFS(filepath.Join(at, "appendonlydir"), os.DirFS(dir)); err != nil {
		return 0, err
	}
	address, err := freeport.Address()
	if err != nil {
		return 0, err
	}
	_, port, _ := net.SplitHostPort(address)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.cfg.Redis, "--port", port, "--bind", "127.0.0.1", "--dir", at, "--appendonly", "yes",
		"--save", "", "--logfile", filepath.Join(at, "log"))
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() { _ = cmd.Wait() }() // it is killed
	defer cancel()
	rdb := redis.NewClient(&redis.Options{Addr: address})
	defer rdb.Close()
	answers := func(ctx context.Context) error { return rdb.Ping(ctx).Err() }
	err = retry.Within(ctx, time.Minute, 20*time.Millisecond, answers)
	if err != nil {
		return 0, fmt.Errorf("look at what Redis will come up with: %w", err)
	}
	serial, err := rdb.HGet(ctx, p.accountKey(), "serial").Int64()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	return serial, err
}

// awaitSomethingTold waits a while until trainers have been told something since, and reports whether they were.
func (in *injector) awaitSomethingTold(ctx context.Context, p plan, serial int64) bool {
	ctx, cancel := context.WithTimeout(ctx, 4*in.service.cfg.Every)
	defer cancel()
	var now buffer.Account
	for {
		var err error
		if now, err = in.service.account(ctx, p); err == nil && now.Mark.Serial > serial {
			return true
		}
		if retry.Pause(ctx, watchEvery) != nil {
			return false
		}
	}
}
