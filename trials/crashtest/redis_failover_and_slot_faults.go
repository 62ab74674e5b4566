package crashtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/rediscluster"
	"github.com/millrace/millrace/trials/stack"
)

// cutReplicaOff keeps the replica of a master from following it, and answers how to let it again.
func cutReplicaOff(ctx context.Context, master redisNode) (again func(), err error) {
	for _, command := range [][]any{
		{"acl", "setuser", "default", "-psync", "-sync"}, {"client", "kill", "type", "replica"},
	} {
		if err := master.Do(ctx, command...).Err(); err != nil {
			return nil, fmt.Errorf("cut the replica off: %w", err)
		}
	}
	return func() { restorePermissions(ctx, master) }, nil
}

// restorePermissions lets everybody do everything again. Sentinel may have had the node write down what was forbidden.
func restorePermissions(ctx context.Context, node redisNode) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	_ = stack.Await(ctx, time.Minute, func(ctx context.Context) error { // it may just be coming up
		return node.Do(ctx, "acl", "setuser", "default", "+@all").Err()
	})
	_ = node.ConfigRewrite(ctx).Err() // or it has the file that it was started with
}

// failOver cuts the replica off from the master of Redis that has the run's account. Taken back, the master is stopped
// and the replica, which lags, is promoted. The old master wakes up beside it, as one that was cut off does, or is
// killed and comes up again.
func (in *injector) failOver(ctx context.Context, f Fault) (back func(), err error) {
	b, err := in.beforeRollback(ctx)
	if err != nil {
		return nil, err
	}
	node, err := in.service.masterOf(ctx, b.p)
	if err != nil {
		return nil, err
	}
	again, err := cutReplicaOff(ctx, node)
	if err != nil {
		return nil, errors.Join(err, node.Close())
	}
	return func() {
		defer node.Close()
		in.awaitSomethingTold(ctx, b.p, b.serial)
		serial, err := in.leaveNote(ctx, &b)
		if err != nil {
			again()
			in.service.say("  no failover: %v", err)
			return
		}
		if err := in.signal(node.name, syscall.SIGSTOP); err != nil {
			in.service.say("  %s is dead already: %v", node.name, err)
		}
		err = in.awaitPromotion(ctx, b.p, node)
		wake := syscall.SIGCONT
		if f.Chance%2 == 0 {
			wake = syscall.SIGKILL
		}
		_ = in.signal(node.name, wake) // it may have been killed meanwhile
		if err != nil {
			in.service.say("  no failover: %v", err)
		}
		again()
		in.noticed(ctx, b, serial > b.serial)
	}, nil
}

// awaitPromotion waits until another node has the run's account.
func (in *injector) awaitPromotion(ctx context.Context, p plan, old redisNode) error {
	return stack.Await(ctx, time.Minute, func(ctx context.Context) error {
		now, err := in.service.masterAddress(ctx, p)
		if err == nil && now == old.Options().Addr {
			err = errors.New("no replica is promoted")
		}
		return err
	})
}

// splitRedis cuts the replica off from the master. Taken back, Sentinel promotes the replica, and cannot demote the old
// master, which serves on: workers hear of the other one, the server, whose way to Sentinel hangs, does not, and its
// trainer neither. Then the split heals.
func (in *injector) splitRedis(ctx context.Context, f Fault) (back func(), err error) {
	b, err := in.beforeRollback(ctx)
	if err != nil {
		return nil, err
	}
	node, err := in.service.masterOf(ctx, b.p)
	if err != nil {
		return nil, err
	}
	again, err := cutReplicaOff(ctx, node)
	if err == nil {
		err = node.Do(ctx, "acl", "setuser", "default", "-replicaof", "-slaveof").Err()
	}
	if err != nil {
		return nil, errors.Join(err, node.Close())
	}
	return func() {
		defer node.Close()
		way := in.service.links["server-sentinel"]
		way.hang()
		in.watch.setSplit(true)
		in.awaitSomethingTold(ctx, b.p, b.serial)
		serial, err := in.leaveNote(ctx, &b)
		if err == nil {
			err = in.promote(ctx, b.p, node)
		}
		if err == nil {
			in.splitFor(ctx, time.Duration(1+f.Chance%4)*time.Second)
		} else {
			in.service.say("  no split: %v", err)
		}
		again()
		way.restore()
		if err == nil {
			in.noticed(ctx, b, serial > b.serial)
		}
		in.healed(ctx, b.p)
	}, nil
}

// healed waits until the server, too, has heard which trainer the run serves since the split.
func (in *injector) healed(ctx context.Context, p plan) {
	defer in.watch.setSplit(false)
	err := stack.Await(ctx, in.service.cfg.patient(noticedWithin), func(ctx context.Context) error {
		account, err := in.service.account(ctx, p)
		if err != nil || account.Generation < 2 || in.watch.current().label() != p.label() {
			return err
		}
		path := fmt.Sprintf("/v1/runs/%s/steps/%d/claim?generation=%d", p.run(), account.NextStep, account.Generation-1)
		a, err := in.watch.call(ctx, http.MethodPost, path, nil)
		if err == nil && !is(a, rollout.Fenced) {
			err = fmt.Errorf("a trainer of generation %d, replaced by %d, is answered %d", account.Generation-1,
				account.Generation, a.Status)
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		in.complain("%s: after two masters: %v", p.label(), err)
	}
}

// promote has Sentinel promote the replica of a master that lives.
func (in *injector) promote(ctx context.Context, p plan, old redisNode) error {
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: in.service.Sentinel})
	defer sentinel.Close()
	err := stack.Await(ctx, 20*time.Second, func(ctx context.Context) error {
		return sentinel.Failover(ctx, stack.MasterName).Err()
	})
	if err != nil {
		return fmt.Errorf("have Sentinel promote the replica: %w", err)
	}
	return in.awaitPromotion(ctx, p, old)
}

// splitFor lets both masters serve.
func (in *injector) splitFor(ctx context.Context, long time.Duration) {
	in.service.say("  two masters for %s", long)
	select {
	case <-ctx.Done():
	case <-time.After(long):
	}
}

// gamesMoved is how many slots of games go with that of the account, at most.
const gamesMoved = 8

// moveSlots moves the slot of the run's account, and those of some of its games, to other masters of the Cluster.
func (in *injector) moveSlots(ctx context.Context, f Fault) error {
	p := in.watch.current()
	rng := rand.New(rand.NewPCG(uint64(f.Chance), 0x510C))
	keys := []string{p.accountKey()}
	if a, err := in.service.account(ctx, p); err == nil {
		for _, seq := range a.InFlight {
			if len(keys) <= gamesMoved {
				keys = append(keys, fmt.Sprintf("%s:{%s/%d/0}:journal", prefix, p.id(), seq))
			}
		}
	}
	for _, key := range keys {
		if err := in.moveSlot(ctx, key, rng); err != nil {
			return err
		}
	}
	in.service.say("  moved %d slots", len(keys))
	return nil
}

func (in *injector) moveSlot(ctx context.Context, key string, rng *rand.Rand) error {
	owner, err := in.service.slotOwner(ctx, key)
	if err != nil {
		return err
	}
	from, err := in.service.redisNodeAt(owner)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := in.service.otherMaster(ctx, from, rng)
	if err != nil {
		return err
	}
	defer to.Close()
	slot, err := rediscluster.Slot(ctx, from.Client, key)
	if err != nil {
		return err
	}
	return rediscluster.MoveSlot(ctx, from.Client, to.Client, slot, func(int) {
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(rng.IntN(30)) * time.Millisecond):
		}
	})
}

// otherMaster is one of the masters of the Cluster but for one.
func (s *service) otherMaster(ctx context.Context, but redisNode, rng *rand.Rand) (redisNode, error) {
	for _, i := range rng.Perm(len(s.RedisNodes)) {
		node, err := s.redisNodeAt(s.RedisNodes[i])
		if err != nil {
			return node, err
		}
		role, err := node.Do(ctx, "ROLE").Slice()
		if err == nil && node.name != but.name && len(role) > 0 && role[0] == "master" {
			return node, nil
		}
		_ = node.Close()
	}
	return redisNode{}, errors.New("no other node is a master")
}
