package process

import (
	"os"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/kit/filelock"
)

// presence is a lock that every worker of a deployment shares as long as it lives, on a file with the deployment's name
// that is as old as the last look at its engines.
type presence struct {
	mu   sync.Mutex
	path string
	end  func() // nil: the lock is not held yet
}

const presenceFile = ".workers"

// tell says that there is a worker, from now until this process ends.
func (p *presence) tell(name string, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end != nil {
		_ = os.Chtimes(p.path, now, now) // for a time without workers
		return nil
	}
	end, err := filelock.Share(p.path)
	if err != nil {
		return err
	}
	p.end = end
	_ = os.WriteFile(p.path, []byte(name), 0o600) // on a full disk the folder tells the name
	return nil
}
