package api_test

import (
	"github.com/millrace/millrace/internal/api"
	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/fleet"
	"github.com/millrace/millrace/internal/workerregistry"
)

var (
	_ api.Store   = (*buffer.Store)(nil)
	_ api.Fleet   = (*fleet.Registry)(nil)
	_ api.Workers = (*workerregistry.Registry)(nil)
)
