package worker

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/engine/address/discovery"
	"github.com/millrace/millrace/worker/workerconfig"
)

// followedList has the fleet follow the list of engines that the configuration in force names, if it names one.
type followedList struct {
	current  func() workerconfig.Config
	registry discovery.Registry
	complain func(error)
}

// lookForList is how soon another list in the configuration is noticed.
const lookForList = time.Second

// follow follows until ctx is done.
func (l followedList) follow(ctx context.Context) {
	look := time.NewTicker(lookForList)
	defer look.Stop()
	for ctx.Err() == nil {
		name := l.current().EnginesFrom
		within, end := context.WithCancel(ctx)
		var following sync.WaitGroup
		following.Go(func() { l.followOne(within, name) })
		for ctx.Err() == nil && l.current().EnginesFrom == name {
			select {
			case <-ctx.Done():
			case <-look.C:
			}
		}
		end()
		following.Wait()
	}
}

func (l followedList) followOne(ctx context.Context, name string) {
	if name == "" {
		return
	}
	source, err := discovery.ParseSource(name)
	if err != nil {
		l.complain(err)
		return
	}
	discovery.Follower{Source: source, Registry: l.registry, Complain: l.complain}.Run(ctx)
}
