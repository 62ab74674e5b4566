package workerrestart

import (
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/trials/stack"
)

// Config says what is measured, and with what. Start from DefaultConfig.
type Config struct {
	stack.Programs
	Dir string // databases and logs are written below it

	Limit  int           // requests in flight at each of the two engines
	After  time.Duration // that engines take for an answer
	Window time.Duration // of each measurement
	Say    func(format string, args ...any)
}

// DefaultConfig is for a machine of two cores.
func DefaultConfig() Config {
	return Config{Limit: 16, After: 3 * time.Second, Window: 30 * time.Second, Say: func(string, ...any) {}}
}

// Validate reports everything that is wrong with c.
func (c Config) Validate() error {
	var errs []error
	if c.Limit < 1 || c.Limit > 1024 {
		errs = append(errs, fmt.Errorf("limit: %d is not within 1 and 1024", c.Limit))
	}
	if c.After < 10*time.Millisecond {
		errs = append(errs, fmt.Errorf("after: %v is less than 10 ms", c.After))
	}
	if c.Window < 5*c.After {
		errs = append(errs, fmt.Errorf("window: %v is less than five answers, %v", c.Window, 5*c.After))
	}
	return errors.Join(errs...)
}
