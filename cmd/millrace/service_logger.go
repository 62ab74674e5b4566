package main

import (
	"log/slog"

	"github.com/millrace/millrace/config"
)

// serviceLogger writes structured lines to stderr, from the level on that the configuration has at the time.
func (e environment) serviceLogger(cfg *config.Service) *slog.Logger {
	level := new(slog.LevelVar)
	if l, err := logLevel(cfg.LogLevel); err == nil { // ReadService has checked it
		level.Set(l)
	}
	if cfg.Source != nil {
		cfg.Source.LogLevel = level
	}
	return slog.New(slog.NewTextHandler(e.Stderr, &slog.HandlerOptions{Level: level}))
}

// logLevel is a level by its name; info where none is named.
func logLevel(name string) (slog.Level, error) {
	var level slog.Level
	if name == "" {
		return slog.LevelInfo, nil
	}
	err := level.UnmarshalText([]byte(name))
	return level, err
}
