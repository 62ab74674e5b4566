package api_test

import (
	"github.com/millrace/millrace/internal/engine/share/workerregistry"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/scaling/scaledfleet"
	"github.com/millrace/millrace/internal/store/buffer"
)

var (
	_ api.Store   = (*buffer.Store)(nil)
	_ api.Fleet   = scaledfleet.Registry{}
	_ api.Workers = (*workerregistry.Registry)(nil)
)
