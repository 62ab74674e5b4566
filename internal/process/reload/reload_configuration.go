// Package reload takes up what changes in a process's files while it runs: its configuration, and what is in files that
// the configuration names, such as tokens and certificates. Which keys of the configuration that is, its table says.
//
// Start reading at Configuration.
package reload

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/millrace/millrace/config"
)

// Configuration is a process's configuration as it is in force.
type Configuration struct {
	log      *slog.Logger
	now      atomic.Pointer[config.Service]
	appliers []func(config.Service) error
}

// NewConfiguration is cfg, read again when its file changes if files watches, and if it was read from one.
func NewConfiguration(cfg config.Service, files *Files, log *slog.Logger) *Configuration {
	c := &Configuration{log: log}
	c.now.Store(&cfg)
	if cfg.Source != nil {
		files.items = append(files.items, files.follow("configuration", c.read, cfg.Source.File))
	}
	return c
}

// Now is the configuration in force.
func (c *Configuration) Now() config.Service { return *c.now.Load() }

// OnChange has apply called with what is in force from then on whenever that has changed. It may be called again with
// the same. An error is logged, and the call made again soon. It is to be called before the files are watched.
func (c *Configuration) OnChange(apply func(config.Service) error) {
	c.appliers = append(c.appliers, apply)
}

// read takes up what may be taken up while the process runs, and names what may not.
func (c *Configuration) read() error {
	was := c.Now()
	next, err := was.Source.Read()
	if err != nil {
		return err
	}
	live, restart := was.Changes(next)
	for _, change := range restart {
		c.log.Warn("the configuration has changed, and this key is taken up by a restart alone", "key", change.Key,
			"in_force", change.From, "in_file", change.To)
	}
	is := was.Take(next)
	c.now.Store(&is)
	if next := level(is); is.Source.LogLevel != nil && next < is.Source.LogLevel.Level() {
		is.Source.LogLevel.Set(next) // before it is said, where more is logged
	}
	for _, change := range live {
		c.log.Info("taken up from the configuration", "key", change.Key, "was", change.From, "is", change.To)
	}
	if is.Source.LogLevel != nil {
		is.Source.LogLevel.Set(level(is))
	}
	return c.apply(is)
}

// level is the configuration's, which has been checked.
func level(is config.Service) (l slog.Level) {
	_ = l.UnmarshalText([]byte(is.LogLevel))
	return l
}

func (c *Configuration) apply(is config.Service) error {
	var errs []error
	for _, apply := range c.appliers {
		errs = append(errs, apply(is))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %w", errTryAgain, err)
	}
	return nil
}
