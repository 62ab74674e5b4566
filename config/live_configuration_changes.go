package config

import (
	"log/slog"
	"reflect"
	"slices"

	"github.com/millrace/millrace/internal/kit/settings"
)

// Source is where a process has read its configuration.
type Source struct {
	File string                  // the configuration file
	Read func() (Service, error) // reads it again, with the environment and the flags over it

	LogLevel *slog.LevelVar // follows log_level; nil: nothing does
}

// Change is a key whose value has changed.
type Change struct {
	Key      string
	From, To string // as they may be shown
}

// Changes is what another reading of the configuration says differently: what a process takes up while it runs, and
// what it takes up when it is started again.
func (s Service) Changes(next Service) (live, restart []Change) {
	was, is := s.Redacted(), next.Redacted()
	for _, key := range serviceTable.Differences(&s, &next) {
		change := Change{Key: key.Path, From: shown(key, &was), To: shown(key, &is)}
		if key.Live {
			live = append(live, change)
		} else {
			restart = append(restart, change)
		}
	}
	return live, restart
}

// shown is a key's value as it may be shown. Of a section only whether it is there has changed.
func shown(key settings.Key, s *Service) string {
	switch v := key.Of(s); {
	case v.Kind() != reflect.Pointer:
		return key.Text(s)
	case v.IsNil():
		return "no section"
	}
	return "a section"
}

// Take is s with what a process takes up while it runs as next has it.
func (s Service) Take(next Service) Service {
	if s.Scaling != nil {
		own := *s.Scaling // what s was stays as it is
		s.Scaling = &own
	}
	for _, key := range serviceTable.Differences(&s, &next) {
		if key.Live {
			key.Take(&s, &next)
		}
	}
	return s
}

// LiveKeys is the keys that a process takes another value of while it runs.
func LiveKeys() []settings.Key {
	return slices.DeleteFunc(slices.Clone(serviceTable.Keys), func(k settings.Key) bool { return !k.Live })
}
