package api_test

import (
	"github.com/millrace/millrace/internal/api"
	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/fleet"
)

var (
	_ api.Store = (*buffer.Store)(nil)
	_ api.Fleet = (*fleet.Registry)(nil)
)
